# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated site that outlives its controllers: whole playbooks on it, of hosts of any name, ended in any way.

What they leave is looked for from outside of the product: objects by the API itself, processes in /proc, files on disk.
"""

from __future__ import annotations

import ctypes
import http
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from fault_proxy import tls_upstream
from rehearsal_harness import ROOT, Rehearsed, rehearsal_below, rehearse, stated_variables
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.module_utils.host_guard import LOCK
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import LEASES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import StatedInventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import bound_to_parent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import lease
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    INVENTORY_FILE,
    RehearsalRequest,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import read_state, stop
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import SPEC_FILE, SupervisorSpec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import StatedSite
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

# How a controller ends. Workers are those of Ansible and what they started; the keeper of the Lease is not among them.
WAYS = ("SIGKILL", "SIGKILL to its workers too", "SIGKILL to its workers and its keeper too", "SIGTERM", "SIGINT")
HOLD = "PLAY [Hold the cluster]"
# Every process of a controller carries it in its environment, with the controller's directory.
_MARK = "GPUFLEET_TEST_CONTROLLER"
_NEW_UTS, _NEW_USER = 0x4000000, 0x10000000
# What a cluster makes and forgets by itself; the address of a Service that is made again is another one.
_PASSING = {"events", "leases", "endpoints", "endpointslices", "componentstatuses", "ipaddresses", "nodes"}
_REVISION = re.compile(r"^(sh\.helm\.release\.v1\..*)\.v\d+$")
Json = dict[str, Any]


@dataclass
class Playbook:
    """A site.yml that runs or has ended, on a controller of its own.

    Attributes:
        process: ansible-playbook, the leader of its group.
        directory: everything that is this controller's own.
        name: its number and host.
        begun: when it was started, by the monotonic clock.
    """

    process: subprocess.Popen[str]
    directory: Path
    name: str
    begun: float = field(default_factory=time.monotonic)

    def said(self) -> str:
        return (self.directory / "output").read_text(encoding="utf-8", errors="replace")

    def await_text(self, text: str, limit_s: float = 240) -> bool:
        """Wait until it says a text or ends; tell whether it said it."""
        eventually(lambda: text in self.said() or self.process.poll() is not None, limit_s, f"{self.name}: {text}")
        return text in self.said()

    def ended(self, limit_s: float = 540) -> int:
        return self.process.wait(limit_s)

    def end_by(self, way: str) -> float:
        """End it in one of WAYS; return how many seconds it took."""
        began = time.monotonic()
        if self.process.poll() is None:
            number = signal.Signals[way.split()[0]]
            # With its keeper: a container that is taken away.
            also = [pid for pid in self.living() if "too" in way and ("keeper" in way or not _is_keeper(pid))]
            for pid in also:
                _send(os.kill, pid, signal.SIGKILL)
            # Ctrl-C reaches the group of the terminal.
            _send(os.killpg if number == signal.SIGINT else os.kill, self.process.pid, number)
        self.process.wait(120)
        return time.monotonic() - began

    def stand_still(self) -> None:
        """Stop it where it is with its workers; its keeper goes on saying that it lives."""
        for pid in (self.process.pid, *(pid for pid in self.living() if not _is_keeper(pid))):
            _send(os.kill, pid, signal.SIGSTOP)

    def living(self) -> list[int]:
        """Processes that it started and that live."""
        wanted = f"{_MARK}={self.directory}".encode()
        return [pid for pid in _pids() if wanted in _environment(pid) and pid != self.process.pid]

    @property
    def record(self) -> Json:
        """run.json; empty where it had not begun one."""
        path = self.directory / ".run" / "latest" / "run.json"
        found: Json = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return found

    def statuses(self) -> dict[str, str]:
        """Status of each gate of its run."""
        return {gate["gate"]: gate["status"] for gate in self.record.get("gates", [])}

    def files(self) -> list[str]:
        """Files that it left in its temporary directories."""
        return [str(path) for place in ("tmp", "ansible") for path in (self.directory / place).rglob("*")]


@dataclass(frozen=True)
class LiveSite:
    """The site: its cluster is up, its hosts answer, and it belongs to no controller."""

    directory: Path
    kubeconfig: Path

    @property
    def rehearsal(self) -> Path:
        return rehearsal_below(self.directory)

    @property
    def inventory(self) -> Path:
        """The inventory that the rehearsal wrote."""
        return self.rehearsal / INVENTORY_FILE

    def run(self, *gates: str, **variables: Any) -> Rehearsed:
        """Run site.yml over gates to its end; `gpufleet_` is put before each variable."""
        done = rehearse(self.directory, playbook="site.yml", inventory=self.inventory, gates=list(gates), **variables)
        # The next run of the site is its latest.
        return replace(done, run_dir=done.run_dir.resolve())

    def controller(
        self, name: str, host: str, gates: tuple[str, ...] = GATE_IDS, playbook: str = "site.yml", **variables: Any
    ) -> Playbook:
        """Start a playbook on a controller of that host name, which chooses its gates itself where none are named;
        `gpufleet_` is put before each variable."""
        # The number alone: ansible-core makes a socket below TMPDIR, whose path may have 107 characters (unix(7)).
        own = self.directory / "c" / name.partition("-")[0]
        for place in ("tmp", "ansible"):
            (own / place).mkdir(parents=True)
        stated = stated_variables(variables)
        stated |= {"gpufleet_gates": ",".join(gates)} if gates else {}
        # As on a command line: numbers and words are text there.
        plain = [f"{key}={value}" for key, value in stated.items() if isinstance(value, int | float)]
        listed = json.dumps({key: value for key, value in stated.items() if not isinstance(value, int | float)})
        extra = [word for text in (*plain, listed) for word in ("-e", text)]
        argv = [sys.executable, "-m", "ansible", "playbook", str(ROOT / "playbooks" / playbook)]
        environment = {
            **os.environ, _MARK: str(own), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache"), "PYTHONPATH": str(ROOT / ".cache"),
            "ANSIBLE_HOME": str(own / "ansible"), "TMPDIR": str(own / "tmp"), "PWD": str(own),
        }  # fmt: skip
        with (own / "output").open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                [*argv, "-i", str(self.inventory), *extra], cwd=own, env=environment,
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                preexec_fn=_on_host(host),
            )  # fmt: skip
        return Playbook(process, own, name)

    def let_lease_expire(self) -> None:
        """Let the Lease of whoever holds it end in a moment, as if nobody had renewed it for its 180 s."""
        with Cluster(Connection(kubeconfig=str(self.kubeconfig))) as cluster:
            if cluster.find(LEASES, lease.NAME, lease.NAMESPACE):
                cluster.change(
                    LEASES, lease.NAME, lambda found: found | {"spec": found["spec"] | {"leaseDurationSeconds": 2}},
                    lease.NAMESPACE,
                )  # fmt: skip

    @contextmanager
    def api_server_away(self) -> Iterator[None]:
        """End the process of the API server, and start it again after the block."""
        state = read_state(self.rehearsal)
        processes = load(SupervisorSpec, self.rehearsal / SPEC_FILE).processes
        (spec,) = (process for process in processes if process.name == "kube-apiserver")
        (pid,) = (pid for pid in _pids() if _words(pid) == " ".join(spec.argv))
        assert state is not None
        os.kill(pid, signal.SIGKILL)
        kept = _kept(self.kubeconfig)
        try:
            yield
        finally:
            kept.close()
            with (self.rehearsal / "logs" / "kube-apiserver-again.log").open("ab") as log:
                subprocess.Popen(
                    spec.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **spec.env},
                    cwd=spec.cwd or None, start_new_session=True, preexec_fn=bound_to_parent(),
                )  # fmt: skip

    def answers(self) -> bool:
        """Whether the API server answers."""
        try:
            return bool(_get(tls_upstream(self.kubeconfig), "/api/v1", whole=True).get("resources"))
        except (OSError, http.client.HTTPException):
            return False

    def objects(self) -> frozenset[str]:
        """Every object of the cluster that nothing owns, and what people set on its nodes."""
        ask = tls_upstream(self.kubeconfig)
        found = set()
        for path, resource in _resources(ask):
            for item in _get(ask, f"{path}/{resource}").get("items") or []:
                metadata = item["metadata"]
                if not metadata.get("ownerReferences"):
                    name = _REVISION.sub(r"\1", metadata["name"])
                    found.add(f"{resource} {metadata.get('namespace', '')}/{name}")
        for node in _get(ask, "/api/v1/nodes", whole=True)["items"]:
            metadata, spec = node["metadata"], node["spec"]
            marks = [*metadata.get("labels", {}).items(), *(("taint", str(t)) for t in spec.get("taints") or [])]
            marks += [("unschedulable", str(spec.get("unschedulable", False)))]
            found |= {f"node {metadata['name']}: {key}={value}" for key, value in marks}
        return frozenset(found)

    def tests(self) -> list[str]:
        """Objects of tests and releases that nobody finished."""
        ask = tls_upstream(self.kubeconfig)
        found = [
            f"{resource} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            for path, resource in _resources(ask)
            for item in _get(ask, f"{path}/{resource}?labelSelector=gpufleet.io/purpose%3Dtest").get("items") or []
        ]
        done = ",".join(f"status%21%3D{status}" for status in ("deployed", "superseded", "failed"))
        secrets = _get(ask, f"/api/v1/secrets?labelSelector=owner%3Dhelm,{done}")
        return found + [f"release {item['metadata']['name']}" for item in secrets.get("items") or []]

    def holder(self) -> str:
        """Who holds the cluster."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.NAMESPACE}/leases/{lease.NAME}"
        found = _get(tls_upstream(self.kubeconfig), path, whole=True)
        return str((found.get("spec") or {}).get("holderIdentity") or "")

    def files(self) -> frozenset[str]:
        """Files on the hosts that are not the machine's own; the file of a lock stays, its lock does not."""
        hosts = self.rehearsal / "hosts"
        places = [place for host in hosts.iterdir() for place in (*(host / "layers").glob("*/upper"), host / "run")]
        found = [path for place in places for path in place.rglob("*") if path.is_file()]
        # What Python compiled of a simulated tool is the rehearsal's. ansible-core keeps a module in a directory that
        # it takes away when the module ends; a simulated host ends it by SIGKILL with its connection, as no sshd does.
        return frozenset(
            str(path.relative_to(hosts))
            for path in found
            if path.name != LOCK and path.suffix != ".pyc" and "_payload_" not in path.parent.name
        )


@contextmanager
def live_site(
    directory: Path, count: int, faults: tuple[str, ...] = (), *, audit: bool = False, sku: str = "h100",
    recipe_data: tuple[Path, ...] = (), **stated: Any,
) -> Iterator[LiveSite]:  # fmt: skip
    """Yield a site with so many hosts, and these faults, whose rehearsal ends with this process; end it. With `audit`
    its API server writes who changed what; `stated` are variables of its inventory without `gpufleet_`."""
    rehearsal = rehearsal_below(directory)
    defaults = yaml.safe_load(
        (ROOT / "rehearsal" / "roles" / "rehearsal" / "defaults" / "main.yml").read_text(encoding="utf-8")
    )
    request = RehearsalRequest(
        directory=rehearsal, cache=default_cache(os.environ), collection=ROOT, nodes=numbered_nodes(count, sku),
        faults=faults, audit=audit, recipe_data=recipe_data,
        site=StatedSite(
            default_criteria=defaults["gpufleet_rehearsal_criteria"], criteria=stated.get("criteria", {})
        ),
        inventory=StatedInventory(everywhere=stated_variables(stated)),
    )  # fmt: skip
    try:
        made = bring_up(request, Progress(silent))
        yield LiveSite(directory, made.kubeconfig)
    finally:
        stop(rehearsal)


def _on_host(name: str) -> Callable[[], None]:
    """Return what gives a child a host name of its own and lets it end with this process."""
    libc, bind = ctypes.CDLL(None, use_errno=True), bound_to_parent()
    uid, gid = os.geteuid(), os.getegid()

    def become() -> None:
        bind()
        # A shell lets what it starts in the background ignore it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if libc.unshare(_NEW_UTS | (_NEW_USER if uid else 0)):
            os._exit(99)
        if uid:
            for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
                Path(f"/proc/self/{file}").write_text(text)
        if libc.sethostname(name.encode(), len(name)):
            os._exit(98)

    return become


def _resources(ask: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return path of the group version and name of everything that the API server can list."""
    groups = [group["preferredVersion"]["groupVersion"] for group in _get(ask, "/apis", whole=True)["groups"]]
    paths = ["/api/v1", *(f"/apis/{group}" for group in groups)]
    return [
        (path, resource["name"])
        for path in paths
        for resource in _get(ask, path, whole=True).get("resources", ())
        if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] not in _PASSING
    ]


def _get(ask: Callable[[], Any], path: str, *, whole: bool = False) -> Json:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = ask()
    wanted = "application/json" if whole else "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    connection.request("GET", path, headers={"Accept": wanted, "Connection": "close"})
    found = connection.getresponse()
    said = found.read()
    # Of a group that is going away there is no document.
    answer: Json = json.loads(said) if found.status != http.HTTPStatus.NOT_FOUND else {}
    connection.close()
    return answer


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _is_keeper(pid: int) -> bool:
    return "workload.keeper" in _words(pid)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _kept(kubeconfig: Path) -> socket.socket:
    """Keep the port of an API server that was killed, so that connections are refused and no other rehearsal of this
    machine takes it meanwhile."""
    address = urlsplit(json.loads(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"])
    kept = socket.socket()
    # Past connections of the server may linger; but who wants the port with the same option does not get it.
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    deadline = time.monotonic() + 10
    while True:
        try:
            kept.bind((str(address.hostname), address.port or 443))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        return kept


def _send(call: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        call(pid, number)
