# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a person reads of a finding: a hint with the names of the parts, and one subject."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.finding import filled
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)

LINK = Subject(SubjectKind.LINK, "acme02 mlx5_3:1 - leaf1:4", "acme02")
HCAS = [Subject(SubjectKind.HCA, f"acme02/mlx5_{number}", "acme02") for number in range(3)]
GPUS = [Subject(SubjectKind.GPU, f"acme02/gpu{number}", "acme02") for number in range(6)]
BY_BUS = Subject(SubjectKind.GPU, "acme02/00000000:1B:00.0", "acme02")


@pytest.mark.parametrize(
    ("hint", "subjects", "expected"),
    [
        ("`mlxlink -d <hca> -m`", [LINK, HCAS[1]], "`mlxlink -d mlx5_1 -m`"),
        ("`mlxlink -d <hca> -m`", HCAS[:2], "`mlxlink -d mlx5_0 -m` (likewise mlx5_1)"),
        ("`mlxlink -d <hca> -m`", [], "`mlxlink -d <hca> -m` (<hca>: an adapter that `ibstat -l` lists)"),
        ("`nvidia-smi -r -i <gpu>`", [GPUS[3]], "`nvidia-smi -r -i 3`"),
        ("`nvidia-smi -r -i <gpu>`", [GPUS[3], GPUS[5], GPUS[3]], "`nvidia-smi -r -i 3,5`"),
        ("`nvidia-smi -r -i <gpu>`", [BY_BUS], "`nvidia-smi -r -i 00000000:1B:00.0`"),
        (
            "`nvidia-smi -r -i <gpu>`",
            [node_subject("acme02")],
            "`nvidia-smi -r -i <gpu>` (<gpu>: its number in `nvidia-smi -L`)",
        ),
    ],
)
def test_a_hint_names_the_part_where_it_is_known(hint: str, subjects: list[Subject], expected: str) -> None:
    assert filled(hint, subjects) == expected


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        ((Subject(SubjectKind.CLUSTER, "lab"), LINK, HCAS[0]), LINK.name),
        ((node_subject("acme02"), GPUS[1]), "acme02/gpu1"),
        ((node_subject("acme02"), *GPUS), "acme02/gpu0, acme02/gpu1, acme02/gpu2, acme02/gpu3 and 2 more"),
        ((node_subject("acme01"), node_subject("acme02")), "acme01, acme02"),
        ((Subject(SubjectKind.SITE, "lab"),), "lab"),
    ],
)
def test_a_person_is_shown_the_most_specific_subjects(subjects: tuple[Subject, ...], expected: str) -> None:
    made = Outcome(check="c", gate="nodes", status=Status.PASSED, rating=Rating.GOOD, subjects=subjects, summary="good")
    assert made.about == expected


def test_every_kind_of_subject_can_be_shown() -> None:
    for kind in SubjectKind:
        outcome = Outcome(
            check="c", gate="g", status=Status.PASSED, rating=Rating.GOOD, subjects=(Subject(kind, "x"),), summary="s"
        )
        assert outcome.about == "x"
