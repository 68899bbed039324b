# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parses the logs of a run to ranks that can be judged, or to the reason why there are none. Pure, fails closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...outcome.errors import InputError
from ...probe.training_log import RankLog, Setup, parse, same_training, torchrun_failures
from ..benchmark.problem import launch_problem
from .model import HostProblem, Rank, Record, Run
from .settings import TrainingSettings

STARTS, COMPLETES = "training-gang-start", "training-completed"
# Errors of ranks whose partner went away: another rank failed first.
_PARTNERS = ("DistBackendError", "DistNetworkError", "DistStoreError", "ConnectionError", "BrokenPipeError")
_PARTNER_WORDS = ("nccl", "gloo", "connection", "peer", "timed out", "socket", "store")
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")
Ranks = Mapping[str, tuple[RankLog, ...]]


def parse_run(record: Record, logs: Mapping[str, str], settings: TrainingSettings) -> Run:
    """Return a run with what its logs say; `logs` has the log of every host that has one."""
    ranks: dict[str, tuple[RankLog, ...]] = {}
    unreadable: dict[str, str] = {}
    for host, text in logs.items():
        try:
            ranks[host] = parse(text)
        except InputError as error:
            unreadable[host] = error.reason
    problem = _problem(record, ranks, unreadable, logs, settings)
    blamed = problem.hosts if problem else ()
    judged = tuple(
        Rank(host=host, log=log) for host in record.hosts if host not in blamed for log in ranks.get(host, ())
    )
    return Run(record=record, ranks=judged if problem is None or problem.partial else (), problem=problem)


def _problem(
    record: Record, ranks: Ranks, unreadable: Mapping[str, str], logs: Mapping[str, str], settings: TrainingSettings
) -> HostProblem | None:
    if record.state == "unschedulable":
        return _not_placed(record)
    launch = launch_problem(record.state, record.reason)
    if launch:
        return _launch(*launch, _named(record) or record.hosts)
    if record.state == "timeout":
        return _hung(record, ranks)
    if record.state != "succeeded":
        return _crashed(record, ranks, logs)
    return _incomplete(record, ranks, unreadable, settings)


def _launch(cause: str, text: str, hosts: Iterable[str], *, bad: bool = False) -> HostProblem:
    return HostProblem(cause=cause, text=text, check=STARTS, hosts=tuple(hosts), bad=bad)


def _named(record: Record) -> tuple[str, ...]:
    """Return the hosts whose pod the reason names: `train-1-2-x7 on gpu03: ImagePullBackOff`."""
    return tuple(pod.host for pod in record.pods if pod.node and f" on {pod.node}:" in f"{record.reason}:")


def _not_placed(record: Record) -> HostProblem:
    placed = {pod.host for pod in record.pods if pod.host}
    missing = [host for host in record.hosts if host not in placed]
    launch = launch_problem(record.state, record.reason)
    if launch and not placed:
        return _launch(*launch, record.hosts)
    text = (
        f"{len(placed)} of {len(record.hosts)} pods got their nodes and held the GPUs, "
        f"those for {_words(missing)} did not: {record.reason}"
    )
    return _launch("half-placed", text[:400], missing, bad=True)


def _hung(record: Record, ranks: Ranks) -> HostProblem:
    silent = [host for host in record.hosts if not ranks.get(host)]
    if silent and len(silent) < len(record.hosts):
        text = f"the ranks of {_words(silent)} never began, all others waited for them: {record.reason}"
        return _launch("not-started", text[:400], silent)
    if silent:
        return _launch("not-started", f"no rank ever began: {record.reason}"[:400], record.hosts)
    absent = [(host, log) for host, logs in ranks.items() for log in logs if log.stuck == "compute"]
    done = min(len(log.steps) for logs in ranks.values() for log in logs)
    every = sum(len(logs) for logs in ranks.values())
    if absent and len(absent) < every:
        gpus = [f"{host}/gpu{log.local_rank}" for host, log in absent]
        text = f"hung in step {done + 1}: {_words(gpus)} never ended its own part, the others waited"
        return _ended("run-hung", text, [host for host, _log in absent], gpus)
    return _ended("run-hung", f"did not end in its time, after {done} steps: {record.reason}", record.hosts)


def _ended(
    cause: str, text: str, hosts: Iterable[str], gpus: Iterable[str] = (), *, partial: bool = False
) -> HostProblem:
    return HostProblem(
        cause=cause, text=text[:400], check=COMPLETES, hosts=tuple(dict.fromkeys(hosts)), gpus=tuple(gpus),
        partial=partial,
    )  # fmt: skip


def _crashed(record: Record, ranks: Ranks, logs: Mapping[str, str]) -> HostProblem:
    """Return the problem of the rank that failed first and by itself: the others fail because it went away."""
    failures = [(log.failure, host, log) for host, found in ranks.items() for log in found if log.failure]
    own = sorted((entry for entry in failures if not _of_partner(entry[0].kind, entry[0].text)), key=lambda e: e[0].at)
    if own:
        failure, host, log = own[0]
        cause = "out-of-memory" if failure.kind in _OUT_OF_MEMORY else "run-crashed"
        text = f"rank {log.rank} ended with {failure.kind} after {len(log.steps)} steps: {failure.text}"
        return _ended(cause, text, [host], [f"{host}/gpu{log.local_rank}"])
    killed = [pod for pod in record.pods if pod.exit_code and not any(f[1] == pod.host for f in failures)]
    for pod in killed:
        words = torchrun_failures(logs.get(pod.host, ""))
        cause = "out-of-memory" if pod.reason == "OOMKilled" else "run-crashed"
        reason = f"{pod.reason}; {words[0]}" if words else pod.reason or record.reason
        return _ended(cause, f"its pod ended with exit code {pod.exit_code}: {reason}", [pod.host])
    failed = [pod.host for pod in record.pods if pod.exit_code]
    return _ended("run-crashed", f"crashed: {record.reason}", failed or record.hosts)


def _of_partner(kind: str, text: str) -> bool:
    return kind in _PARTNERS or (kind == "RuntimeError" and any(word in text.lower() for word in _PARTNER_WORDS))


def _incomplete(
    record: Record, ranks: Ranks, unreadable: Mapping[str, str], settings: TrainingSettings
) -> HostProblem | None:
    wrong = {host: text for host in record.hosts if (text := _wrong(host, record, ranks, unreadable, settings))}
    if wrong:
        host, text = next(iter(wrong.items()))
        more = f" (so on {len(wrong)} hosts)" if len(wrong) > 1 else ""
        whole = len(wrong) == len(record.hosts)
        return _ended("output-incomplete", f"{host}: {text}{more}", wrong, partial=not whole)
    numbers = sorted(log.rank for found in ranks.values() for log in found)
    if numbers != list(range(record.world)):
        return _ended(
            "output-incomplete", f"ranks {_words(map(str, numbers[:20]))} are not 0 to {record.world - 1}", record.hosts
        )
    setups = [log.setup for found in ranks.values() for log in found if log.setup]
    if not same_training(setups):
        return _ended("setups-differ", "ranks do not train the same model in the same way", record.hosts)
    return None


def _wrong(host: str, record: Record, ranks: Ranks, unreadable: Mapping[str, str], settings: TrainingSettings) -> str:
    """Return what is missing in the output of a host; empty if nothing is."""
    pod = next((pod for pod in record.pods if pod.host == host), None)
    if pod is None:
        return "there was no pod on it"
    if host in unreadable:
        return f"its log cannot be read: {unreadable[host]}"
    found: Sequence[RankLog] = ranks.get(host, ())
    if len(found) != record.gpus:
        return f"{len(found)} of {record.gpus} ranks wrote anything"
    for log in found:
        if len(log.steps) < settings.run.steps or not log.weights:
            return f"the lines of rank {log.rank} end after {len(log.steps)} of {settings.run.steps} steps"
        if log.setup is None or log.setup.world != record.world or log.setup.device != settings.run.device:
            expected = f"{settings.run.device}, {record.world} ranks"
            return f"rank {log.rank} reports {_setup_words(log.setup)}, expected {expected}"
    return "" if pod.exit_code == 0 else f"its pod ended with exit code {pod.exit_code}"


def _setup_words(setup: Setup | None) -> str:
    return f"{setup.device}, {setup.world} ranks" if setup else "nothing"


def _words(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
