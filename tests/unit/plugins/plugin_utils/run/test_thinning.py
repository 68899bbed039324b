# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence cannot be thinned: whatever single piece of a healthy run is taken out, no result that rested on it passes.

The run is a rehearsal of two hosts (tests/data/README.md). Tried are a sample of kinds, another one with each seed
(seeds.py), and those that once were not noticed; `make thinning` tries every kind.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from archives import unpack
from seeds import drawing
from thinned import HEALTHY, Thinned, allowed_exceptions, exception_for, exceptions_for, remembered
from thinning import Piece, by_kind, pieces_of
from unread import is_unread

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

# How many kinds are tried: of what observers saved, and of what tools and pods said.
OBSERVED, SAID = 40, 30
# What once outlived: the file, and its kind without it.
_SMI = "tools/nvidia_smi_xml/stdout/(line)"
_LOAD = "evidence/load/training_acceptance"
ONCE = (
    ("observations/telemetry/metrics.json", "data/series[] delete"),
    ("observations/telemetry/metrics.json", "data/alert_fields/hosts halve"),
    ("evidence/hosts/gpu01.json", "tools/lspci/withheld delete"),
    ("evidence/hosts/gpu01.json", "tools/dcgmi_diag/argv halve"),
    ("evidence/hosts/gpu02.json", "tools/lspci/stdout/(line) N:N:N Infiniband controller [N]: Mellanox Technolo halve"),
    ("evidence/hosts/gpu02.json", "tools/nvidia_smi_topo/stdout/(line) NICN: mlxN_N delete"),
    ("evidence/hosts/gpu01.json", "tools/ibstat/stdout/(line) Firmware version: N.N delete"),
    ("evidence/hosts/gpu01.json", "tools/ibstat_after/stdout/(line) Port GUID: N halve"),
    ("evidence/hosts/gpu02.json", f"{_SMI} <current_link_gen>N</current_link_gen> delete"),
    ("evidence/hosts/gpu02.json", f"{_SMI} <dram_uncorrectable>N</dram_uncorrectable> empty"),
    ("evidence/hosts/gpu01.json", f"{_SMI} </supported_clocks> halve"),
    (f"{_LOAD}/before/gpu01.json", "tools/nvidia_smi_nvlink/stdout/(line) Link N: N GB/s delete"),
    (f"{_LOAD}/after/gpu02.json", f"{_SMI} <gpu_recovery_action>None</gpu_recovery_action> delete"),
    (f"{_LOAD}/after/gpu02.json", f"{_SMI} <replay_counter>N</replay_counter> empty"),
)
# Numbers that contradict what stands beside them, or cannot be: the place in an observation, made 0 or halved.
NUMBERS = (
    ("fabric/fabric", ("interval_s",), "zero"),
    ("nodes/hosts", ("rated_gbps", "gpu01"), "zero"),
    ("gpu_stack/cluster", ("workloads", 0, "ready"), "zero"),
    ("gpu_stack/cluster", ("workloads", 19, "desired"), "half"),
    ("gpu_stack/gang", ("gang_size",), "half"),
    ("gpu_stack/gang", ("slots",), "half"),
    ("gpu_stack/gang", ("slots",), "zero"),
    ("gpu_stack/gang", ("gpus_per_pod",), "zero"),
    ("gpu_stack/cluster", ("permissions_asked",), "zero"),
    ("gpu_stack/cluster", ("operands", 0, "workload", "ready_for_s"), "half"),
    ("nodes/hosts", ("rated_gbps", "gpu01"), "half"),
    ("telemetry/metrics", ("hosts", 0, "count"), "half"),
    ("fabric_validation/nccl", ("plan", "settings", "judge", "bad"), "half"),
    ("fabric_validation/nccl", ("plan", "settings", "run", "factor"), "half"),
    ("fabric_validation/nccl", ("records", 0, "attempt"), "half"),
    ("fabric_validation/nccl", ("records", 0, "smallest"), "zero"),
    ("training_acceptance/training", ("records", 0, "pods", 1, "index"), "zero"),
    ("inference_acceptance/inference", ("servers", 0, "health"), "zero"),
    ("inference_acceptance/inference", ("servers", 0, "answers", 0, "completion_tokens"), "half"),
    ("inference_acceptance/inference", ("servers", 0, "answers", 0, "prompt_tokens"), "half"),
)
HOSTS = (
    "evidence/hosts/gpu02.json",
    "evidence/load/training_acceptance/after/gpu02.json",
    "evidence/fabric/gpu01.json",
)
# Said of hosts by their names; the rest is said of the cluster, or stands in the evidence of each host.
NAMES_HOSTS = (
    "gpu_stack/cluster", "telemetry/metrics", "fabric_validation/nccl", "training_acceptance/training",
    "inference_acceptance/inference",
)  # fmt: skip
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Thinned]:
    directory = tmp_path_factory.mktemp("healthy")
    unpack(HEALTHY, directory)
    with remembered():
        yield Thinned(directory)


def test_the_whole_run_is_healthy(thinned: Thinned) -> None:
    assert set(thinned.whole) == set(GATE_IDS)
    for gate, answers in thinned.whole.items():
        words = [
            f"{check}: {told.said[:200]}" for (check, _name), told in answers.items() if told.status != Status.PASSED
        ]
        hint = (
            f"{gate}: is what is saved another than in the archive? tests/data/README.md: how it is made again; {words}"
        )
        assert any(told.status is Status.PASSED for told in answers.values()), hint
        assert not any(told.status is Status.FAILED for told in answers.values()), hint


def test_no_pass_outlives_a_piece_that_it_rested_on(thinned: Thinned) -> None:
    draw = drawing("thinning")
    tried = [piece for start, number in (("observations", OBSERVED), ("evidence", SAID))
             for piece in _drawn(thinned, draw, start, number)]  # fmt: skip
    outlived = [f"{piece.text}: {why[:300]}" for piece in tried if (why := thinned.kept(piece))]
    assert not outlived, f"{len(outlived)} of {len(tried)} pieces:\n" + "\n".join(outlived)


def _drawn(thinned: Thinned, draw: random.Random, start: str, number: int) -> Iterator[Piece]:
    """Yield that many pieces of different kinds that no exception allows; of evidence from two files of it."""
    run_dir, allowed = thinned.run_dir, allowed_exceptions()
    files = sorted(path for path in (run_dir / start).rglob("*") if path.is_file())
    kinds = by_kind(pieces_of(run_dir, files if start == "observations" else draw.sample(files, 2), numbers=True))
    names = sorted(kinds)
    draw.shuffle(names)
    found = (
        piece
        for name in names
        if exception_for(run_dir, piece := draw.choice(kinds[name]), exceptions_for(name, allowed)) is None
    )
    return islice(found, number)


@pytest.mark.parametrize(("file", "kind"), ONCE)
def test_what_once_was_not_noticed_is(thinned: Thinned, file: str, kind: str) -> None:
    """Of each kind one piece, drawn with the seed."""
    place = thinned.run_dir / file
    entries = exceptions_for(f"{Piece(file, (), '').kind.partition(':')[0]}:{kind}", allowed_exceptions())
    same = [
        piece
        for piece in pieces_of(thinned.run_dir, [place])
        if piece.kind.partition(":")[2] == kind and exception_for(thinned.run_dir, piece, entries) is None
    ]
    assert same, "no such piece: is what is saved another than in the archive?"
    assert thinned.kept(drawing(f"thinning/{file}/{kind}").choice(same)) == ""


@pytest.mark.parametrize(("file", "place", "how"), NUMBERS)
def test_a_number_that_contradicts_what_stands_beside_it_is_noticed(
    thinned: Thinned, file: str, place: tuple[str | int, ...], how: str
) -> None:
    piece = Piece(f"observations/{file}.json", ("data", *place), how)
    assert piece in set(pieces_of(thinned.run_dir, [thinned.run_dir / piece.file], numbers=True))
    assert thinned.kept(piece) == ""


def test_every_exception_has_its_reason() -> None:
    assert all(len(entry.reason.split()) > 3 for entry in allowed_exceptions())


def test_pieces_that_no_parser_reads_are_told_from_those_that_one_reads(thinned: Thinned) -> None:
    kinds = by_kind(pieces_of(thinned.run_dir, [thinned.run_dir / "evidence/hosts/gpu01.json"]))
    start = "evidence/hosts/gpuN.json:tools/nvidia_smi_xml/stdout/(line) "
    unread, read = (kinds[f"{start}<{tag}> delete"][0] for tag in (
        "product_brand>NVIDIA</product_brand", "persistence_mode>Enabled</persistence_mode",
    ))  # fmt: skip
    assert is_unread(thinned.run_dir, unread) and not is_unread(thinned.run_dir, read)
    assert not is_unread(thinned.run_dir, kinds["evidence/hosts/gpuN.json:tools/lspci/rc null"][0])


def _of_another_run(document: dict[str, Any]) -> None:
    document["run_id"] = "20200101T000000Z-0000"


def _of_no_run(document: dict[str, Any]) -> None:
    document["run_id"] = ""


def _older(document: dict[str, Any]) -> None:
    document["started"] = f"2019{document['started'][4:]}"


def _of_no_time(document: dict[str, Any]) -> None:
    document["started"] = ""


def _of_another_host(document: dict[str, Any]) -> None:
    document["host"] = "gpu03"


def _of_another_gate(document: dict[str, Any]) -> None:
    document["gate"] = "facility" if document["gate"] != "facility" else "fabric"


@pytest.mark.parametrize("change", [_of_another_run, _of_no_run, _older, _of_no_time, _of_another_host])
@pytest.mark.parametrize("file", HOSTS)
def test_evidence_of_another_run_time_or_host_proves_nothing(thinned: Thinned, file: str, change: Change) -> None:
    assert _outlive(thinned, file, thinned.with_change(file, change)) == []


@pytest.mark.parametrize("change", [_of_another_run, _of_no_run, _older, _of_no_time, _of_another_gate])
@pytest.mark.parametrize("gate", GATE_IDS)
def test_an_observation_of_another_run_time_or_gate_proves_nothing(thinned: Thinned, gate: str, change: Change) -> None:
    for file in _observations(thinned, gate):
        assert _outlive(thinned, file, thinned.with_change(file, change)) == [], file


@pytest.mark.parametrize("gate", GATE_IDS)
def test_an_observation_of_another_cluster_proves_nothing(thinned: Thinned, gate: str) -> None:
    for file in _observations(thinned, gate):
        text = (thinned.run_dir / file).read_text(encoding="utf-8")
        foreign = json.loads(text.replace("gpu0", "node").replace("rehearsal", "elsewhere"))
        foreign["run_id"] = "20200101T000000Z-0000"
        assert _outlive(thinned, file, thinned.with_file(file, json.dumps(foreign))) == [], file


@pytest.mark.parametrize("name", NAMES_HOSTS)
def test_what_is_said_of_hosts_of_another_cluster_proves_nothing_of_ours(thinned: Thinned, name: str) -> None:
    file = f"observations/{name}.json"
    text = (thinned.run_dir / file).read_text(encoding="utf-8")
    outlive = _outlive(thinned, file, thinned.with_file(file, text.replace("gpu0", "node")))
    assert [answer for answer in outlive if "gpu0" in answer] == []


def _observations(thinned: Thinned, gate: str) -> list[str]:
    found = sorted((thinned.run_dir / "observations" / gate).glob("*.json"))
    assert found
    return [path.relative_to(thinned.run_dir).as_posix() for path in found]


def _outlive(thinned: Thinned, file: str, now: dict[str, Any]) -> list[str]:
    """Return what passes now though it does not without that file."""
    without = thinned.with_file(file, None)
    rested = set(thinned.still_passed(thinned.whole)) - set(thinned.still_passed(without))
    seen = {gate: thinned.whole[gate] for gate in now}
    rested &= set(thinned.still_passed(seen))
    assert rested, f"nothing rests on {file}"
    return sorted(rested & set(thinned.still_passed(now)))
