# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the main job through ansible-runner, as a person or AWX would, and reads what it left."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a run that is not passed."""

    gate: str
    check: str
    subjects: tuple[str, ...]
    status: str
    cause: str


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A finished run: ansible's exit code, its output, its custom stats and the run directory."""

    rc: int
    output: str
    stats: dict[str, Any]
    run_dir: Path

    @property
    def record(self) -> dict[str, Any]:
        """run.json."""
        found: dict[str, Any] = json.loads((self.run_dir / "run.json").read_text(encoding="utf-8"))
        return found

    def status(self, gate: str) -> str:
        """Status of a gate."""
        return str(next(entry["status"] for entry in self.record["gates"] if entry["gate"] == gate))

    def findings(self) -> list[Finding]:
        """Every result in the CTRF files that is not passed; gates that were not reached have pending ones, and what
        readiness has nobody to ask for before the stack is there is skipped."""
        found = []
        suites = (path for path in (self.run_dir / "ctrf").glob("*.json") if path.stem != "all")
        for path in sorted(suites):
            for test in json.loads(path.read_text(encoding="utf-8"))["results"]["tests"]:
                nobody_to_ask = path.stem == "readiness" and test["status"] == "skipped"
                if test["status"] not in ("passed", "pending") and not nobody_to_ask:
                    outcome = test["extra"]["outcome"]
                    subjects = tuple(subject["name"] for subject in outcome["subjects"])
                    found.append(Finding(outcome["gate"], outcome["check"], subjects, test["status"], outcome["cause"]))
        return found

    def failed(self) -> set[tuple[str, str, tuple[str, ...], str]]:
        """What failed: gate, check, subjects, cause."""
        return {(f.gate, f.check, f.subjects, f.cause) for f in self.findings() if f.status == "failed"}


def stated_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables by the names that a user states; `own_` begins those of the site."""
    return {name if name.startswith("own_") else f"gpufleet_{name}": value for name, value in variables.items()}


def rehearse(
    work: Path, *, playbook: str = "rehearse.yml", inventory: Path | None = None, cmdline: str = "", **variables: Any
) -> Rehearsed:
    """Run a playbook with variables; `gpufleet_` is put before each name.

    It is started in the directory, as a user would: runs, history and rehearsal lie in `.run` there.

    Args:
        work: an empty directory for all of it and ansible-runner's own files.
        playbook: a file of playbooks/.
        inventory: an inventory file; none means that the rehearsal makes its hosts.
        cmdline: more words for ansible-playbook, such as `--tags plan`.
        variables: the variables of the run.
    """
    import ansible_runner

    work.mkdir(parents=True, exist_ok=True)
    # One for each run: ansible-runner keeps the variables of a run and gives them to the next one there.
    runner = tempfile.mkdtemp(prefix="runner-", dir=work)
    extra = stated_variables(variables)
    done = ansible_runner.run(
        private_data_dir=runner,
        project_dir=str(ROOT),
        playbook=str(ROOT / "playbooks" / playbook),
        inventory=str(inventory) if inventory else None,
        cmdline=cmdline or None,
        extravars=extra,
        envvars={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PWD": str(work), "HOME": os.environ["HOME"]},
        quiet=True,
    )
    output = done.stdout.read()
    stats = next(
        (e["event_data"].get("artifact_data") or {} for e in done.events if e["event"] == "playbook_on_stats"), {}
    )
    # A run that was refused is not the latest.
    report = stats.get("gpufleet_report")
    return Rehearsed(int(done.rc), output, stats, Path(report).parent if report else work / ".run" / "latest")


def rehearsal_below(work: Path) -> Path:
    """Where a rehearsal lies that was started in a directory."""
    return work / ".run" / "rehearsal"


def left_behind(work: Path) -> list[str]:
    """Processes and mounts that name the directory of a rehearsal, 90 s after its ansible-playbook ended."""
    deadline = monotonic() + 90
    # After a failed gate the supervisor ends the rehearsal by itself, a moment after ansible-playbook.
    while (found := _running(work)) and monotonic() < deadline:
        sleep(0.2)
    return found


def _running(work: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if any(str(place) in text for place in (work / "rehearsal", rehearsal_below(work))):
                found.append(f"{entry.name} {text}")
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return found + [line for line in mounts if str(work) in line]
