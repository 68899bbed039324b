# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence cannot be thinned: whatever single piece of a healthy run is taken out, a result that rested on it is gone.

The run is a rehearsal of four hosts, packed with tools/pack_run.py. Of what tools and pods said every file, field and
line is a piece, of observations the whole file. A sample is tried, the same in every run of the tests;
GPUFLEET_THINNING=<number> tries so many kinds of pieces, GPUFLEET_THINNING=all every piece.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from archives import unpack
from thinning import Piece, Thinned, pieces_of, remembered_hosts

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

DATA = Path(__file__).resolve().parents[4] / "data"
EXCEPTIONS = [
    re.compile(entry["pieces"]) for entry in yaml.safe_load((DATA / "thinning.yaml").read_text("utf-8"))["exceptions"]
]
SAMPLE = os.environ.get("GPUFLEET_THINNING", "80")


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Thinned]:
    directory = tmp_path_factory.mktemp("healthy")
    unpack(DATA / "healthy_run.tar.xz", directory)
    with remembered_hosts():
        yield Thinned(directory)


def sample(pieces: list[Piece]) -> list[Piece]:
    """All pieces, or so many kinds of them, one piece of each."""
    if SAMPLE == "all":
        return pieces
    draw = random.Random(1)
    kinds: dict[str, list[Piece]] = {}
    for piece in pieces:
        kinds.setdefault(piece.kind, []).append(piece)
    chosen = draw.sample(sorted(kinds), min(int(SAMPLE), len(kinds)))
    return [draw.choice(kinds[kind]) for kind in chosen]


def in_question(piece: Piece) -> bool:
    """Tell whether a piece is tried: all of what tools and pods said, and whole observations."""
    return not excepted(piece) and (piece.file.startswith("evidence/") or not piece.path)


def excepted(piece: Piece) -> bool:
    return any(exception.match(piece.kind) for exception in EXCEPTIONS)


def test_the_whole_run_is_healthy(thinned: Thinned) -> None:
    assert set(thinned.whole) == set(GATE_IDS)
    for gate, answers in thinned.whole.items():
        assert any(told.status is Status.PASSED for told in answers.values()), gate
        assert not any(told.status is Status.FAILED for told in answers.values()), gate


def test_no_pass_outlives_a_piece_that_it_rested_on(thinned: Thinned) -> None:
    tried = sample([piece for piece in pieces_of(thinned.run_dir) if in_question(piece)])
    outlived = [f"{piece.text}: {why[:300]}" for piece in tried if (why := thinned.kept(piece))]
    assert tried
    assert not outlived, f"{len(outlived)} of {len(tried)} pieces:\n" + "\n".join(outlived[:40])


def _of_another_run(document: dict[str, Any]) -> None:
    document["run_id"] = "20200101T000000Z-0000"


def _of_another_host(document: dict[str, Any]) -> None:
    document["host"] = "gpu03"


def _of_another_gate(document: dict[str, Any]) -> None:
    document["gate"] = "facility" if document["gate"] != "facility" else "fabric"


@pytest.mark.parametrize("change", [_of_another_run, _of_another_host])
@pytest.mark.parametrize("file", ["evidence/hosts/gpu02.json", "evidence/fabric/gpu01.json"])
def test_evidence_of_another_run_or_host_proves_nothing(
    thinned: Thinned, file: str, change: Callable[[dict[str, Any]], None]
) -> None:
    assert _withdrawn(thinned, file, change)


@pytest.mark.parametrize("change", [_of_another_run, _of_another_gate])
@pytest.mark.parametrize("gate", GATE_IDS)
def test_an_observation_of_another_run_or_gate_proves_nothing(
    thinned: Thinned, gate: str, change: Callable[[dict[str, Any]], None]
) -> None:
    for path in sorted((thinned.run_dir / "observations" / gate).glob("*.json")):
        if path.stem == "dra":
            # GPUs are given out by the device plugin there: no check reads it.
            continue
        assert _withdrawn(thinned, path.relative_to(thinned.run_dir).as_posix(), change), path.name


def _withdrawn(thinned: Thinned, file: str, change: Callable[[dict[str, Any]], None]) -> bool:
    """Tell whether a pass is gone when that file says something else of where it comes from."""
    path = thinned.run_dir / file
    before = path.read_text(encoding="utf-8")
    document = json.loads(before)
    change(document)
    try:
        path.write_text(json.dumps(document), encoding="utf-8")
        now = {gate: thinned.judged(gate) for gate in thinned.gates_of(file)}
    finally:
        path.write_text(before, encoding="utf-8")
    passed = [(gate, key) for gate in now for key, told in thinned.whole[gate].items() if told.status is Status.PASSED]
    return any(now[gate].get(key) is None or now[gate][key].status is not Status.PASSED for gate, key in passed)
