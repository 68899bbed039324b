# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists as people read them."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import first_of, natural


@pytest.mark.parametrize(
    ("texts", "told"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c"], "a, b and 1 more")],
)
def test_the_first_are_named_and_the_others_counted(texts: list[str], told: str) -> None:
    assert first_of(texts, 2) == told


def test_numbers_in_names_count_as_numbers() -> None:
    assert sorted(["gpu10", "gpu2", "a1b2", "gpu", "2gpu"], key=natural) == ["2gpu", "a1b2", "gpu", "gpu2", "gpu10"]
    assert natural("gpu" + "1" * 5000) < natural("gpu" + "1" * 5001)
