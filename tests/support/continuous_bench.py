# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cycles over the idle nodes of a simulated site that lives: controllers, users' pods, the audit log, the history."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from audit_log import changes
from live_site import LiveSite
from rehearsal_harness import ROOT, Rehearsed, rehearse
from waiting import await_model, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.passive import TEST as PASSIVE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import host_directory
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model, healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    read_spec,
    write_spec,
)

# What of a simulated host says that its GPUs, links or kernel are not well, and whether it answers.
SHOWN = (
    "host.json", "out/nvidia-smi.xml.gz", "out/nvlink.txt", "out/journal-iso.txt", "out/journal.txt", "out/dmesg.txt",
    "out/dmesg-iso.txt",
)  # fmt: skip
TEST = "nccl_loop"
# One cycle in a process of its own, as the worker of Ansible is one; its clock may be ahead.
PROGRAM = """
import json, sys, time
from pathlib import Path
options = json.loads(sys.argv[1])
ahead_s, clock = options.pop("later_s", 0.0), time.time
time.time = lambda: clock() + ahead_s
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.app import run_cycle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
try:
    done = run_cycle(Run(Path(options["run_dir"])), options, lambda line: print(line, flush=True))
except BringupError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
sys.exit(0 if done.good else 8)
"""
USER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "training", "namespace": "default"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "main", "image": "example.org/training:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
        ],
    },
}


@dataclass
class Bench:
    """The site with its GPU stack, a run over it, and a cluster client."""

    site: LiveSite
    cluster: Cluster
    serial: Iterator[int]
    identity: Path
    # Whose the driver is: the tools of busy nodes are asked on the hosts, or in the operator's pods.
    owner: str
    run_dir: Path | None = None
    # What each controller says, by its pid.
    outputs: dict[int, Path] = field(default_factory=dict)

    def history(self, name: str) -> ServiceStore:
        return open_service(self.site.directory / f"{name}.sqlite")

    def results(self, name: str) -> list[tuple[str, str, str]]:
        """Node, status and cause of every result of a history, in the order of the nodes."""
        found = self.history(name).results("rehearsal", rehearsal=True, since_s=0.0)
        return sorted((found.node, found.status.value, found.cause) for found in found if found.test != PASSIVE)

    def passive(self, name: str) -> dict[str, NodeResult]:
        """By node what the passive checks of a history say."""
        found = self.history(name).results("rehearsal", rehearsal=True, since_s=0.0)
        return {result.node: result for result in found if result.test == PASSIVE}

    @contextmanager
    def audited(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Give a kubeconfig of an identity of its own; the list has what it changed once the block is over."""
        log, seen = self.site.rehearsal / "audit.log", list[dict[str, Any]]()
        since = len(log.read_text(encoding="utf-8").splitlines())
        yield str(self.identity), seen
        seen += changes(log, since)
        assert seen, "the identity changed nothing at all: the log does not show it"

    def continuous(self, store: str, **variables: Any) -> Rehearsed:
        """Run the playbook on this history."""
        directory = self.site.directory
        stated = {
            "store": str(directory / f"{store}.sqlite"), "continuous_log_dir": str(directory / "logs"),
            "continuous_tests": [TEST], "driver_owner": self.owner, **variables,
        }  # fmt: skip
        return rehearse(directory, playbook="continuous.yml", inventory=self.site.inventory, **stated)

    def controller(self, store: str, of: Path | None = None, **more: Any) -> subprocess.Popen[str]:
        """Start a cycle of a controller of its own, in a copy of a run; `later_s`: how far its clock is ahead."""
        run_dir, of = self.site.directory / "runs" / f"copy-{next(self.serial)}", of or self.run_dir
        assert of is not None
        shutil.copytree(of, run_dir)
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
        (run_dir / "run.json").write_text(json.dumps(record | {"run_id": run_dir.name}), encoding="utf-8")
        shutil.rmtree(run_dir / "ctrf")
        options = {
            "run_dir": str(run_dir), "store": str(self.site.directory / f"{store}.sqlite"), "number": 1,
            "tests": [TEST], "passive": False,
            "log_dir": str(self.site.directory / "logs"), "kubeconfig": str(self.site.kubeconfig), "policy": {},
            "when_held": "refuse", "wait_s": 100.0, **more,
        }  # fmt: skip
        output = (run_dir / "output").open("w", encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / ".cache")}
        command = [sys.executable, "-c", PROGRAM, json.dumps(options)]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, text=True)
        self.outputs[process.pid] = Path(output.name)
        return process

    def said(self, process: subprocess.Popen[str]) -> str:
        """What a cycle said, once it has ended."""
        process.wait(100)
        return self.outputs[process.pid].read_text(encoding="utf-8")

    @contextmanager
    def fault(self, text: str) -> Iterator[None]:
        """Let the hardware have this fault alone meanwhile."""
        model = self.site.rehearsal / "model.yaml"
        before = read_spec(model)
        catalogue = load_catalogue()
        healthy = healthy_cluster(before, load_hardware([ROOT / "recipes" / "hardware"]))
        write_spec(replace(before, faults=choose_faults((text,) if text else (), healthy, catalogue)), model)
        await_model(model)
        try:
            yield
        finally:
            write_spec(before, model)
            await_model(model)

    @contextmanager
    def shown_by_hosts(self) -> Iterator[None]:
        """Let the hosts show the faults of the model meanwhile: they print what was written when they were made."""
        # The default is never used: pylint takes the end of a count for possible.
        root, made = self.site.rehearsal, self.site.directory / f"shown-{next(self.serial, 0)}"
        model = build_model(read_spec(root / "model.yaml"), load_hardware([ROOT / "recipes" / "hardware"]))
        prepare_hosts(model, made, ROOT / "rehearsal" / "recipes")
        before: dict[Path, bytes] = {}
        for node in model.nodes:
            for file in SHOWN:
                path = host_directory(root, node.name) / file
                before[path] = path.read_bytes()
                # Equal files of hosts are one on the disk.
                path.unlink()
                path.write_bytes((host_directory(made, node.name) / file).read_bytes())
        try:
            yield
        finally:
            for path, content in before.items():
                path.write_bytes(content)

    @contextmanager
    def user_pod(self, node: str) -> Iterator[None]:
        """Let a user's pod have all GPUs of a node meanwhile; it and its node have to stay as they are."""
        body = {**USER, "spec": {**USER["spec"], "nodeSelector": {"kubernetes.io/hostname": node}}}  # type: ignore[dict-item]
        self.cluster.create(PODS, body, "default")
        try:
            eventually(lambda: self._user()["status"].get("phase") == "Running", 60)
            pod, before = self._user(), self.node(node)
            yield
            after = self._user()
            assert (after["metadata"]["uid"], after["spec"]) == (pod["metadata"]["uid"], pod["spec"])
            assert after["status"]["phase"] == "Running" and self.node(node) == before
        finally:
            self.cluster.delete(PODS, "training", "default")
            eventually(lambda: self.cluster.find(PODS, "training", "default") is None, 60)

    def _user(self) -> dict[str, Any]:
        found = self.cluster.find(PODS, "training", "default")
        assert found is not None
        return found

    def tested_now(self) -> set[str]:
        """The nodes on which a pod of ours runs."""
        pods = self.cluster.list_objects(PODS, labels="gpufleet.io/purpose=test")
        return {pod["spec"].get("nodeName", "") for pod in pods if pod["status"].get("phase") == "Running"}

    def node(self, name: str) -> dict[str, Any]:
        """What somebody may have set on a node."""
        (found,) = (node for node in self.cluster.list_objects(NODES) if node["metadata"]["name"] == name)
        metadata = found["metadata"]
        return {"labels": metadata["labels"], "notes": metadata.get("annotations"), "spec": found["spec"]}

    def nothing_left(self, store: str) -> None:
        """Neither objects of tests nor leases; namespaces take a moment to go."""
        eventually(lambda: not self.site.tests() and not self.site.holder(), 60, what=self.site.tests)
        assert self.history(store).leases("rehearsal", rehearsal=True) == ()
