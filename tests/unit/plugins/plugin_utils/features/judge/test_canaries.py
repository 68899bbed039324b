# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Forty secrets planted wherever a site can bring some in: none of them is in any file that a run leaves.

They go through what writes them in a run: preflight, the collecting tasks, the observers, the judges, the reports and
the history. Each has the shape that its kind has (a token, a password with spaces, a key, a URL).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from archives import unpack

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.records import EvidenceFolder
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes.observe_hosts import OBSERVER
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    read_evidence,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge, rewrite_reports
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import RUN_FILE, dump
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import run_day
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import record_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import redact_data

ARCHIVE = Path(__file__).resolve().parents[5] / "data" / "saved_runs" / "0.1.0_missing_gpu.tar.xz"
WORD = "cAnArY"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    unpack(ARCHIVE, tmp_path / "run")
    return Run(tmp_path / "run")


class Planted:
    """Makes secrets that can be told apart and found again, in the shapes that secrets have."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.all: list[str] = []

    def one(self, before: str = "", after: str = "") -> str:
        self.all.append(f"{WORD}{next(self._numbers):02}")
        return f"{before}{self.all[-1]}{after}"


def settings(plant: Planted) -> dict[str, Any]:
    """Settings of the inventory, some of them from vaulted variables: ten secrets."""
    server = {
        "env": {"HF_TOKEN": plant.one("hf_"), "HTTPS_PROXY": plant.one("http://bob:", "@proxy:3128")},
        "arguments": ["--api-key", plant.one(), plant.one("--hf-token=")],
        "volume": {"csi": {"volumeAttributes": {"secretKey": plant.one()}}},
        "hub": plant.one("https://", "@hub.example.org"),
    }
    training = {"run": {"env": {"WANDB_API_KEY": plant.one(), "NCCL_DEBUG": "INFO"}}}
    telemetry = {
        "prometheus": {
            "url": plant.one("https://user:", "@prometheus.example.org"),
            "bearer_token": plant.one(),
            "password": plant.one("a b "),
        }
    }
    return {"inference_acceptance": {"server": server}, "training_acceptance": training, "telemetry": telemetry}


def helm_values(plant: Planted) -> dict[str, Any]:
    """Values of a chart and a manifest beside it: eight secrets."""
    return {
        "grafana": {"adminPassword": plant.one("with space, and comma ")},
        "driver": {"licensingConfig": {"nlsToken": plant.one()}},
        "imagePullSecrets": [{"name": "ngc"}],
        "registry": {"credentials": {"username": "oauth", "value": plant.one()}},
        "extraEnv": [{"name": "NGC_API_KEY", "value": plant.one("nvapi-")}],
        "tls.key": plant.one("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----"),
        ".dockerconfigjson": plant.one(),
        "alertmanager.yml": f"smtp:\n  password: |\n    {plant.one()}\n  to: ops\n",
        "remoteWrite": [{"basic_auth": {"password": plant.one()}}],
    }


def tool_output(plant: Planted) -> str:
    """What a tool on a host prints: eight secrets."""
    return "\n".join(
        [
            plant.one("export HF_TOKEN="),
            plant.one("mount -o password=two words "),
            plant.one("curl -u admin:", " https://bmc"),
            plant.one("\x1b[31mpass\x1b[0mword: "),
            plant.one("redis://:", "@cache:6379"),
            plant.one("GET / HTTP/1.1\nAuthorization: Bearer ", "abcdefgh"),
            plant.one("MIIEowIBAAKCAQEA", "\n-----END RSA PRIVATE KEY-----"),
            plant.one('{"accessKey": "', '"}'),
        ]
    )


def pod_log(plant: Planted) -> str:
    """What a pod logs: seven secrets, one of them in a kubeconfig."""
    return "\n".join(
        [
            plant.one("vllm serve --api-key ", " --port 8000"),
            plant.one("huggingface_hub: using hf_", "abcdefghijklmnop"),
            plant.one("users:\n- user:\n    client-key-data: "),
            plant.one("    token: eyJhbGciOi.", ""),
            plant.one("password='a b, ", "'"),
            plant.one("AWS_SECRET_ACCESS_KEY="),
            plant.one("fetching from s3 with access_key: "),
        ]
    )


def test_no_planted_secret_is_in_any_file(run: Run, tmp_path: Path) -> None:
    plant = Planted()
    # Preflight: inventory and recipe.
    stated = settings(plant)
    run.save_site(replace(run.site, settings={**run.site.settings, **stated}))
    recipe = json.loads((run.path / RUN_FILE).read_text("utf-8"))
    recipe["componentRefs"][0]["values"] = helm_values(plant)
    (run.path / RUN_FILE).write_text(dump(redact_data(recipe), run.path / RUN_FILE), encoding="utf-8")
    # The command line of the run, and the reason of a decision.
    given = ["-e", json.dumps({"gpufleet_settings": {"x": {"password": plant.one()}}}), "-e", plant.one("hf_token=")]
    command = command_line(["ansible-playbook", "site.yml", *given], {}, tmp_path)
    run.save_record(replace(run.record, command=command, notes=(plant.one("note: password: "),)))
    # Tools of a host, logs of pods, and what an observer saw or died of.
    host = run.path / "evidence" / "hosts" / "gpu01.json"
    seen = read_evidence(host)
    tools = {name: replace(tool, stderr=tool_output(plant)) for name, tool in list(seen.tools.items())[:1]}
    write_evidence(run.path, replace(seen, reason=plant.one("password: "), tools={**seen.tools, **tools}))
    EvidenceFolder(run.path, "inference_acceptance").keep("server.log", pod_log(plant))
    _observed(run, plant)
    # Judged again, with results, reports, numbers for others, and the history.
    run.reload()
    record, differences = rejudge(run)
    rewrite_reports(run, record, differences)
    for verdict in record.gates:
        record_history(run, verdict, str(tmp_path / "history.sqlite"), lambda line: None, print, converged=True)
    assert len(plant.all) == 40
    assert leaked(tmp_path, plant) == {}
    assert WORD not in json.dumps(run_stats(run)) + " ".join(differences)


def _observed(run: Run, plant: Planted) -> None:
    context = run.observe_context(run_day(run.record), lambda line: None)

    def refused(_context: ObserveContext) -> Any:
        raise BringupError("API server", f"refused token={plant.one()}.", plant.one("use --password "))

    def crashed(_context: ObserveContext) -> Any:
        raise ValueError(plant.one("bad config: {'apiKey': '", "'}"))

    for number, look in enumerate((refused, crashed)):
        observe(replace(OBSERVER, key=f"planted{number}", observe=look), "nodes", context)


def leaked(directory: Path, plant: Planted) -> dict[str, list[str]]:
    """Return the files that hold a planted secret, with the secrets."""
    found = {}
    for path in files(directory):
        content = path.read_bytes()
        if words := [word for word in plant.all if word.encode() in content]:
            found[str(path.relative_to(directory))] = words
    return found


def files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())
