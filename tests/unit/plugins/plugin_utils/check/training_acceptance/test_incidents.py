# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public incidents whose cause was confirmed, as the evidence that the gate would have had of them.

Lines are quoted from the threads that each test names. Either the cause is named, or the result is `other` and quotes
the line that decides; nothing of it passes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from training_fleet import Line, TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Record as NcclRecord
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.parse_run import (
    parse_run as nccl_parse,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.error_lines import (
    NAME,
    SHARED_MEMORY,
    find_error,
    last_line,
)

ROOT = Path(__file__).resolve().parents[6]
FOUR = ("gpu01", "gpu02", "gpu03", "gpu04")
STARTS, COMPLETES = "training-gang-start", "training-completed"
# pytorch/pytorch #73682 and #80772, meta-pytorch/torchx #541.
NOT_FOUND = "ValueError: host not found: Name or service not known"
TIMED_OUT = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
# kubeflow/trainer #3783.
LAUNCHER = "ssh: Could not resolve hostname job-launcher-0-0.job: Name or service not known"
# pytorch/torchtitan #853, pytorch/ci-infra #490, pytorch/pytorch #16979: three wordings of one cause.
SHM_16_MB = "Last error: Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)"
SHM_POD = "NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)"
SHM_WORKER = (
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."
)


@cache
def hardware() -> dict[str, Sku]:
    return load_hardware([ROOT / "recipes" / "hardware"])


def nccl_run(log: str) -> Run:
    """A run over two hosts that ended early with this log."""
    record = NcclRecord(
        name="pair-1", phase="pair", hosts=("gpu01", "gpu02"), attempt=1, state="failed", exit_code=1,
        reason="pair-1-0 on n1 ended with exit code 1",
    )  # fmt: skip
    return nccl_parse(record, log, checked_settings(FabricValidationSettings, "fabric_validation", {}))


def fleet(**more: Any) -> TrainingFleet:
    return TrainingFleet(hosts=FOUR, hardware=hardware(), **more)


def ended(*codes: int) -> Any:
    return lambda _attempt: ("failed", "pod ended", dict(enumerate(codes)))


def test_names_that_resolve_seconds_later_blame_neither_index_0_nor_a_late_node() -> None:
    """The rank of index 0 timed out waiting; the others could not resolve its name yet."""

    def raw(host: str, text: str) -> str:
        phases = "".join(text.splitlines(keepends=True)[:3])
        return phases + (TIMED_OUT if host == "gpu01" else NOT_FOUND) + "\n"

    dns = fleet(raw=raw, end=ended(1, 1, 1, 1))
    found = {who: (check, cause, status) for check, cause, status, who in dns.findings()}
    assert found == dict.fromkeys(FOUR[1:], (STARTS, "rendezvous-dns", "other"))
    summaries = [o.summary for o in dns.outcomes() if o.cause == "rendezvous-dns"]
    assert all("Name or service not known" in text for text in summaries)
    assert not any(o.status is Status.PASSED for o in dns.outcomes())


def test_a_launcher_that_no_worker_can_resolve_is_a_matter_of_names() -> None:
    log = f"{LAUNCHER}\nORTE was unable to reliably start one or more daemons.\n"
    error = find_error(log)
    assert error is not None and (error.says, error.text) == (NAME, LAUNCHER)
    run = nccl_run(log)
    assert run.problem is not None and (run.problem.cause, run.problem.text) == ("launcher-dns", LAUNCHER)
    # Names that could not be resolved in the first seconds explain nothing of a run that got further.
    later = nccl_run(LAUNCHER + "\n" + "NCCL INFO line\n" * 60 + "Test NCCL failure common.cu:100 'unhandled'\n")
    assert later.problem is not None and later.problem.cause == "run-crashed"
    assert nccl_run(f"{SHM_16_MB}\nTest NCCL failure common.cu:1 'x'\n").problem.cause == "shm-too-small"  # type: ignore[union-attr]


def test_not_a_number_from_one_gpu_is_followed_to_its_rank() -> None:
    """pytorch/torchtitan #951: 256 GPUs, the node of the rank that the check named had an XID; a reboot cured it."""

    def edit(number: int, lines: list[Line]) -> list[Line]:
        first = 1 if number == 13 else 2
        spoiled = [{**x, "loss": "nan"} if x.get("step", 0) >= first and x["event"] == "step" else x for x in lines]
        return [{**x, "loss": "nan", "not_finite_from": x["first"]} if x["event"] == "window" else x for x in spoiled]

    bad = fleet(edit=edit)
    assert bad.findings() == [("training-loss", "loss-not-finite", "failed", "gpu02")]
    (told,) = [o for o in bad.outcomes() if o.cause == "loss-not-finite"]
    assert told.subjects[1].name == "gpu02/gpu5" and "XID" in told.hint


@pytest.mark.parametrize("line", [SHM_16_MB, SHM_POD, SHM_WORKER])
def test_too_little_shared_memory_is_named_in_each_wording_and_blames_no_gpu(line: str) -> None:
    def edit(number: int, lines: list[Line]) -> list[Line]:
        error = {
            "schema_version": 2, "event": "error", "rank": number, "step": 0, "at": 9.0, "kind": "RuntimeError",
            "text": "unhandled system error: System call or external library call failed or device error",
        }  # fmt: skip
        return [lines[0], error]

    short = fleet(edit=edit, raw=lambda _host, text: f"{text}{line}\n", end=ended(1, 1, 1, 1))
    found = short.findings()
    assert {(check, cause, status) for check, cause, status, _who in found} == {(COMPLETES, "shm-too-small", "other")}
    outcomes = [o for o in short.outcomes() if o.cause == "shm-too-small"]
    assert all("shm" in o.summary and all("/gpu" not in s.name for s in o.subjects) for o in outcomes)
    assert find_error(line) is not None and find_error(line).says == SHARED_MEMORY  # type: ignore[union-attr]


def test_error_lines_of_a_healthy_log_say_nothing() -> None:
    healthy = "NCCL INFO Bootstrap: Using eth0\nW0821 Setting OMP_NUM_THREADS\nNCCL INFO Connected all rings\n"
    assert find_error(healthy) is None
    assert (last_line(healthy), last_line("\n \n")) == ("NCCL INFO Connected all rings", "")
