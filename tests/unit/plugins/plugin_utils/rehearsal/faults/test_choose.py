# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `FAULTS=` accepts, and what it says about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    catalogue_table,
    choose_faults,
    load_catalogue,
    unknown_faults,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import (
    apply_fault,
    build_model,
    subject_names,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue()
MODEL = build_model(
    ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(16, "h100")),
    load_hardware([ROOT / "recipes" / "hardware"]),
)


def chosen(text: str, seed: int | None = None) -> list[tuple[str, str]]:
    return [(fault.id, fault.subject) for fault in choose_faults(text, MODEL, CATALOGUE, seed)]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_fault_changes_the_model(name: str) -> None:
    (fault,) = choose_faults(name, MODEL, CATALOGUE)
    assert apply_fault(MODEL, fault) != MODEL


def test_a_subject_is_drawn_by_the_seed_and_stays_drawn() -> None:
    assert chosen("gpu-lost", 1) == chosen("gpu-lost", 1)
    assert len({chosen("gpu-lost", seed)[0][1] for seed in range(40)}) > 20


def test_a_subject_can_be_a_part_or_its_node() -> None:
    assert chosen("gpu-lost@gpu03/gpu5") == [("gpu-lost", "gpu03/gpu5")]
    ((_fault, subject),) = chosen("gpu-lost@gpu03")
    assert subject in subject_names(MODEL, "gpu") and subject.startswith("gpu03/")
    assert chosen("hca-down@gpu03/mlx5_4, power-over-budget@rack-a2") == [
        ("hca-down", "gpu03/mlx5_4"), ("power-over-budget", "rack-a2"),
    ]  # fmt: skip


def test_the_same_fault_twice_hits_two_subjects() -> None:
    assert len({subject for _fault, subject in chosen(",".join(["gpu-lost@gpu03"] * 8))}) == 8
    with pytest.raises(ProblemsError, match="every cluster has it already"):
        chosen("record-tampered,record-tampered")


def test_mistakes_come_in_one_list_with_the_nearest_names() -> None:
    with pytest.raises(ProblemsError) as error:
        chosen("gpu-mising,gpu-lost@gpu99,/no/such/file.yaml")
    text = str(error.value)
    assert "mount-missing" not in text, "one that is almost the word has none beside it"
    assert "3 problems" in text and "'gpu-missing'" in text and "gpu09" in text and "/no/such/file.yaml" in text


def test_the_host_of_a_misspelled_fault_is_looked_at_as_well() -> None:
    found = [str(problem) for problem in unknown_faults(["gpu-mising@gpu99/gpu1"], CATALOGUE, {"gpu01", "gpu02"})]
    assert len(found) == 2 and "'gpu-missing'" in found[0] and "there is no host 'gpu99'" in found[1]
    # Of a word that is near to none, nobody knows what it hits.
    assert len(unknown_faults(["nonsense-of-mine@gpu99"], CATALOGUE, {"gpu01", "gpu02"})) == 1
    assert not unknown_faults(["gpu-missing@gpu01/gpu1"], CATALOGUE, {"gpu01", "gpu02"})


def test_a_word_that_is_near_to_none_gets_no_list_of_all() -> None:
    with pytest.raises(ProblemsError) as error:
        chosen("nonsense-of-mine")
    assert "rehearse_faults" in str(error.value) and len(str(error.value)) < 200


def test_a_subject_that_is_near_to_none_gets_no_list_of_all() -> None:
    with pytest.raises(ProblemsError) as error:
        chosen("gpu-missing@zzzzz")
    assert " more" in str(error.value) and len(str(error.value)) < 250
    assert "gpufleet_rehearsal_faults 'gpu-missing@zzzzz'" in str(error.value)


def test_a_file_gives_faults_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "- id: two-lost\n  kind: gpu\n  subject: gpu02/gpu1\n  patch: [{at: gpu.presence, set: lost}]\n",
        encoding="utf-8",
    )
    (fault, other) = choose_faults(f"{path},hca-down@gpu01/mlx5_0", MODEL, CATALOGUE)
    assert apply_fault(MODEL, fault).node("gpu02").gpus[1].presence == "lost"
    assert other.id == "hca-down"
    path.write_text("- {id: a, kind: gpu, subject: gpu77/gpu1, patch: []}\n", encoding="utf-8")
    with pytest.raises(ProblemsError, match="gpu77"):
        choose_faults(str(path), MODEL, CATALOGUE)


def test_an_id_twice_or_an_unknown_word_is_refused(tmp_path: Path) -> None:
    entry = "- {id: a, kind: gpu, description: x, expect: {gate: nodes, check: c, cause: d}, patch: []}\n"
    file = tmp_path / "gates" / "facility" / "faults.yaml"
    file.parent.mkdir(parents=True)
    with pytest.raises(InputError, match="holds no faults"):
        load_catalogue(tmp_path)
    file.write_text(entry * 2, encoding="utf-8")
    with pytest.raises(InputError, match="twice: a"):
        load_catalogue(tmp_path)
    file.write_text(entry.replace("cause", "reason"), encoding="utf-8")
    with pytest.raises(ProblemsError, match="reason"):
        load_catalogue(tmp_path)


def test_the_list_has_every_fault() -> None:
    table = catalogue_table(CATALOGUE)
    assert all(any(line.startswith(f"{name} ") for line in table.splitlines()) for name in CATALOGUE)
