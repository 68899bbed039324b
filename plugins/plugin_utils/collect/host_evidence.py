# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evidence files: the complete output of the tools of one host, kept in the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..outcome.codec import dumps, load, load_json, prepare
from ..outcome.errors import InputError
from ..runtime.clock import now_utc
from ..runtime.files import require_moment, require_run, run_id_of, write_atomic
from ..runtime.redaction import redact, redact_data

HOSTS = "hosts"
DRIVERS = "drivers"
FABRIC = "fabric"
# From version 2 on the file names its run.
_SCHEMA_VERSION = 2
_READ = (1, _SCHEMA_VERSION)

_WRITTEN = ("host", "reached", "reason", "started", "tools", "schema_version")
_OF_TOOL = ("argv", "rc", "stdout", "stderr", "duration_s", "timed_out", "missing", "truncated")
_OF_TOOL_SINCE_2 = ("withheld",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One run of one tool.

    - `rc`: exit status; None when the tool did not end by itself.
    - `truncated`: the output was cut.
    - `withheld`: the tool was not run, because another run loads the host (`held`) or its GPUs are in use (`in-use`).
      `stderr` then names who.
    """

    argv: tuple[str, ...]
    rc: int | None = None
    stdout: str = ""
    stderr: str = ""
    duration_s: float = 0.0
    timed_out: bool = False
    missing: bool = False
    truncated: bool = False
    withheld: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvidence:
    """Everything that was collected from one host.

    - `reason`: why the host was not reached.
    - `run_id`: the run that collected it; empty in files of earlier releases.
    - `clock_off_s`: lower and upper bound (s) of how far the host's clock is ahead of the controller's; empty if the
      two were not compared.
    """

    host: str
    reached: bool
    reason: str = ""
    started: str = ""
    tools: dict[str, ToolRun] = field(default_factory=dict)
    clock_off_s: tuple[float, ...] = ()
    run_id: str = ""
    schema_version: int = _SCHEMA_VERSION


def prepare_evidence() -> None:
    """Build the converters of evidence files up front, so that the first host does not wait for them."""
    prepare(HostEvidence, ToolRun)


def evidence_file(host: str, kind: str = HOSTS) -> str:
    """Return the path of a host's evidence, relative to the run directory.

    Raises:
        InputError: the name cannot be a file name.
    """
    if not host or host.startswith(".") or "/" in host or "\0" in host:
        raise InputError(f"host {host!r}", "the name cannot be a file name.", "rename the host in the inventory")
    return f"evidence/{kind}/{host}.json"


def write_evidence(run_dir: Path, evidence: HostEvidence, kind: str = HOSTS) -> Path:
    """Write the evidence of one host, redacted and whole, and return its path.

    Raises:
        OSError: the run directory cannot be written.
    """
    path = run_dir / evidence_file(evidence.host, kind)
    tools = {
        name: replace(run, argv=tuple(redact_data(run.argv)), stdout=redact(run.stdout), stderr=redact(run.stderr))
        for name, run in evidence.tools.items()
    }
    started = evidence.started or now_utc()
    mine = replace(evidence, reason=redact(evidence.reason), tools=tools, started=started, run_id=run_id_of(run_dir))
    write_atomic(path, dumps(mine))
    return path


def read_evidence(path: Path) -> HostEvidence:
    """Return the evidence of one host.

    Raises:
        InputError: no such file, not JSON, not what this release writes, of another host or of another run.
    """
    evidence = load(HostEvidence, path)
    _refuse_incomplete(path)
    if evidence.host != path.stem:
        raise InputError(str(path), f"holds the evidence of {evidence.host!r}.", "collect it again")
    if evidence.schema_version not in _READ:
        known = " and ".join(map(str, _READ))
        found = f"schema_version is {evidence.schema_version}, this release reads {known}."
        raise InputError(str(path), found, "judge the run with the release that made it")
    run_dir = next((above.parent for above in path.parents if above.name == "evidence"), path.parent)
    whole = evidence.schema_version == _SCHEMA_VERSION
    require_run(path, evidence.run_id, run_id_of(run_dir), configured=whole)
    if whole:
        require_moment(path, evidence.started, evidence.run_id)
    return evidence


def _refuse_incomplete(path: Path) -> None:
    """Refuse evidence that lacks a field which is always written.

    Filled in with its default, a missing field would read as "nothing is wrong".

    Raises:
        InputError: the first field that is missing.
    """
    document = load_json(path)
    if not isinstance(document, dict):
        raise InputError(str(path), "is no evidence of a host: it holds no fields.", "collect it again")
    missing = [name for name in _WRITTEN if name not in document]
    of_tool = _OF_TOOL if document.get("schema_version") == 1 else _OF_TOOL + _OF_TOOL_SINCE_2
    tools = document.get("tools", {})
    if not isinstance(tools, dict) or not all(isinstance(run, dict) for run in tools.values()):
        raise InputError(str(path), "tools is no mapping of what each tool printed.", "collect it again")
    missing += [f"tools.{name}.{key}" for name, run in tools.items() for key in of_tool if key not in run]
    if missing:
        raise InputError(str(path), f"has no {missing[0]}, which is always written.", "collect it again")


def unreached(host: str, reason: str) -> HostEvidence:
    """Return the evidence of a host that was not reached."""
    return HostEvidence(host=host, reached=False, reason=reason, started=now_utc())


def clock_off_s(clock: object, asked_s: float, answered_s: float) -> tuple[float, ...]:
    """Return the lower and upper bound of how far a host's clock is ahead of the controller's, in seconds.

    Empty if the host reported no two readings.

    The host reads its clock twice between request and response. So its first reading is ahead by no more than the time
    since the request, its last one by no less than the time until the response (RFC 5905 bounds an offset in the same
    way).

    Args:
        clock: the host's report: first and last reading of its clock (s since 1970).
        asked_s: controller's clock when it sent the request.
        answered_s: controller's clock when it had the response.
    """
    if not isinstance(clock, list) or len(clock) != 2 or not all(isinstance(moment, (int, float)) for moment in clock):
        return ()
    first, last = (float(moment) for moment in clock)
    return (last - answered_s, first - asked_s)


def evidence_from_exec(host: str, results: Mapping[str, ToolRun], reason: str = "") -> HostEvidence:
    """Return the evidence of one node whose driver tools ran in pods.

    Args:
        host: inventory name of the node.
        results: run of each tool of pod_tools; empty if there was no pod to run them in.
        reason: why there are no results.
    """
    if not results:
        return unreached(host, reason or "no pod with the driver's tools on this node")
    return HostEvidence(host=host, reached=True, started=now_utc(), tools=dict(results))
