# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen of claims and slices cannot be thinned: whatever is taken out, no result that rested on it passes.

The healthy run of the other thinning gives GPUs out by the device plugin, so these are tried on what a rehearsal with
claims for GPUs recorded. Every piece is tried; numbers are made 0 and halved as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from thinning import Piece, pieces_of, without

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    dra_allocation,
    dra_slices,
    observe_cluster,
    observe_dra,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.claimed_container import ContainerSeen
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_dra import (
    ClaimedDevice,
    ClaimResult,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import Observation, require_whole
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import context, healthy, recipe, site

UUIDS = ("GPU-731ea879-a162-cabb-1696-289adb25000a", "GPU-3cb0af24-d6ae-37ba-d2f5-9046ac4dcc84")
CLAIM = ClaimResult(
    asked=2,
    nodes=("gpu01", "gpu02"),
    allocated=True,
    node="gpu01",
    devices=tuple(
        ClaimedDevice(driver="gpu.nvidia.com", pool="gpu01", device=f"gpu-{number}", known=True, uuid=uuid)
        for number, uuid in enumerate(UUIDS)
    ),
    pool_nodes=("gpu01",),
    container=ContainerSeen(
        exit_code=0,
        uuids=tuple(sorted(UUIDS)),
        printed="\n".join(f"GPU {n}: NVIDIA A100-SXM4-80GB (UUID: {uuid})" for n, uuid in enumerate(UUIDS)),
    ),
    settled_s=1.0,
)
Judged = Callable[[Any], tuple[Outcome, ...]]
# Pieces that are no evidence, with the reason.
ALLOWED = {
    "dra": {
        r"data/nodes(/.*)? .*": "where the claim might have been allocated; where it was is judged",
        r"data/(said|reason|hint) .*": "words that are shown when it failed",
        r"data/container/(reason|printed(/.*)?) .*": "words that are shown; the UUIDs that it printed are judged",
        r"data/devices/\d+/(driver|pool|device) halve": "names that are shown; that a slice has it is judged",
        r"data/settled_s .*": "how long it took, which is shown",
    },
    "cluster": {
        r"data/slices/\d+/devices (zero|half)": "devices beside whole GPUs (slices, domains), which are shown",
        r"data/slices/\d+/pool halve": "the name of a pool, of which each node here has one",
        r"data/slices/\d+/generation (zero|half)": "compared within a pool alone, of which each here has one slice",
    },
}


def _thinned(directory: Path, key: str, data: Any) -> Iterator[tuple[str, Any]]:
    path = directory / f"observations/gpu_stack/{key}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"data": data}))
    for piece in pieces_of(directory, numbers=True):
        if piece.path and piece.path != ("data",):
            yield _named(piece), json.loads(without(path.read_text(), piece, as_json=True)).get("data")


def _named(piece: Piece) -> str:
    return f"{'/'.join(map(str, piece.path))} {piece.how}"


def _outlived(directory: Path, key: str, whole: Any, judge: Judged) -> list[str]:
    """Return every piece without which something passes that rested on it."""
    found = []
    for name, data in _thinned(directory, key, to_plain(whole)):
        try:
            outcomes = judge(data)
        except BringupError:
            continue
        if all(outcome.status is Status.PASSED for outcome in outcomes):
            found.append(name)
    return [name for name in found if not any(re.fullmatch(kind, name) for kind in ALLOWED[key])]


def _claim(data: Any) -> tuple[Outcome, ...]:
    _require(observe_dra.OBSERVER, "dra", data)
    given = context(recipe=recipe())
    return dra_allocation.judge(observe_dra.OBSERVER.restore(data, Path(), site()), given)


def _slices(data: Any) -> tuple[Outcome, ...]:
    _require(observe_cluster.OBSERVER, "cluster", data)
    seen = observe_cluster.OBSERVER.restore(data, Path(), site())
    return dra_slices.judge(seen, context(recipe=recipe()))


def _require(observer: Any, key: str, data: Any) -> None:
    require_whole(observer, Observation(gate="gpu_stack", key=key, started="", duration_s=0.0, data=data))


def _state() -> ClusterState:
    view = healthy()
    workloads = tuple(operand.workload for operand in view.operands or ())
    return replace(view, workloads=(*(view.workloads or ()), *workloads))


def test_no_pass_of_a_claim_outlives_a_piece_of_it(tmp_path: Path) -> None:
    assert [outcome.status for outcome in _claim(to_plain(CLAIM))] == [Status.PASSED]
    assert _outlived(tmp_path, "dra", CLAIM, _claim) == []


def test_no_pass_of_slices_outlives_a_piece_of_them(tmp_path: Path) -> None:
    whole = _state()
    assert {outcome.status for outcome in _slices(to_plain(whole))} == {Status.PASSED}
    only = [name for name in _outlived(tmp_path, "cluster", whole, _slices) if name.startswith("data/slices")]
    assert only == []


@pytest.mark.parametrize("key", ALLOWED)
def test_every_exception_has_a_reason(key: str) -> None:
    assert all(len(reason.split()) > 3 for reason in ALLOWED[key].values())
