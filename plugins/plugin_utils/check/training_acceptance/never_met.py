# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why the ranks of a run that did not end well never met, and which hosts kept the others waiting. Pure.

A pod that is there waits for all others, so those that came furthest are not to blame: the ones that stopped first are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...probe.error_lines import NAME, find_error, last_line
from ...probe.training_log_model import PodLog
from .model import HostProblem, PodRecord, Record

STARTS = "training-gang-start"
# How far a pod came: nothing said, its phases, at least one rank.
_SILENT, _STARTED, _RESOLVED, _LOADED, _RANKS = range(5)
_MARK = '{"schema_version"'
_DID = {
    _SILENT: "wrote nothing: its container did not begin",
    _STARTED: "did not find the meeting point by its name",
    _RESOLVED: "did not come to an end of loading PyTorch",
    _LOADED: "had no rank",
}


def never_met(record: Record, pods: Mapping[str, PodLog], logs: Mapping[str, str]) -> HostProblem | None:
    """Return the problem of a run whose ranks did not begin on every host; None where they did, or a rank tells more.

    Runs of release 0.1 have no phases: there a pod said nothing, or it had ranks.
    """
    reached = {host: _reached(pods.get(host)) for host in record.hosts}
    least = min(reached.values())
    if least == _RANKS or any(log.failure for pod in pods.values() for log in pod.ranks):
        return None
    said_last = {host: _since_phases(text) for host, text in logs.items()}
    names = {host: error.text for host, text in said_last.items() if (error := find_error(text)) and error.says == NAME}
    deaf = [host for host in record.hosts if host in names and reached[host] < _RANKS]
    if deaf or least == _STARTED:
        hosts = deaf or [host for host, far in reached.items() if far == least]
        said = names.get(hosts[0]) or last_line(said_last.get(hosts[0], ""))
        text = f"{words(hosts)} {_DID[_STARTED]}{f' ({said})' if said else ''}; all others waited: {record.reason}"
        return _problem("rendezvous-dns", text, hosts)
    hosts = [host for host, far in reached.items() if far == least]
    ended = [pod for pod in record.pods if pod.host in hosts and pod.exit_code]
    if ended:
        hosts = [pod.host for pod in ended]
        text = f"{_exited(ended[0], logs)}; no rank ever began on {words(hosts)}"
        return _problem("not-started", text, hosts)
    if len(hosts) == len(record.hosts):
        return _problem("not-started", f"no rank ever began, no pod {_past(least)}: {record.reason}", hosts)
    return _problem("not-started", f"{words(hosts)} {_DID[least]}, all others waited: {record.reason}", hosts)


def _problem(cause: str, text: str, hosts: Iterable[str]) -> HostProblem:
    return HostProblem(cause=cause, text=text[:400], check=STARTS, hosts=tuple(hosts))


def _reached(pod: PodLog | None) -> int:
    if pod is None:
        return _SILENT
    return _RANKS if pod.ranks else len(pod.phases)


def _past(far: int) -> str:
    return {_SILENT: "wrote anything", _RESOLVED: "loaded PyTorch", _LOADED: "had a rank"}[far]


def _exited(pod: PodRecord, logs: Mapping[str, str]) -> str:
    said = last_line(_since_phases(logs.get(pod.host, "")))
    more = "; ".join(part for part in (pod.reason, said) if part)
    return f"the pod of {pod.host} ended with exit code {pod.exit_code}{f' ({more})' if more else ''}"


def _since_phases(log: str) -> str:
    """Return what a pod wrote after the last line of the program: a name that it waited for and found is forgotten."""
    return log[max(0, log.rfind(_MARK)) :].partition("\n")[2] if _MARK in log else log


def words(names: Iterable[str]) -> str:
    """Return at most eight names, and how many more there are."""
    found = list(names)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
