# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rehearsal takes from recipe data of a site."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    RehearsalRequest,
    own_variables,
)


def test_recipe_data_without_skus_can_be_rehearsed_and_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "layers" / "overlays").mkdir(parents=True)
    (tmp_path / "skus" / "hardware").mkdir(parents=True)
    data = tuple(tmp_path / name for name in ("layers", "skus", "misspelt"))
    request = RehearsalRequest(directory=tmp_path, cache=tmp_path, collection=tmp_path, nodes=(), recipe_data=data)
    assert request.hardware == (tmp_path / "skus" / "hardware", tmp_path / "misspelt" / "hardware")
    with pytest.raises(ProblemsError, match="misspelt"):
        load_hardware(request.hardware)


def test_an_extra_variable_that_would_replace_what_a_rehearsal_sets_is_refused() -> None:
    extra = {"gpufleet_forced_settings": {}, "gpufleet_notes": [], "ansible_connection": "ssh", "gpufleet_gates": "x"}
    assert [problem.subject for problem in own_variables(extra)] == [*extra][:3]
    assert own_variables({"ansible_connection": "gpufleet.rehearsal.rehearsal", "gpufleet_gates": "x"}) == []
