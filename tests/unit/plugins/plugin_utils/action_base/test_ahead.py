# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The check after a refused call: it has to be given what the role gives to its module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.ahead import CALLED, INVENTORY, REHEARSAL


def given(tasks: Any, wanted: str) -> dict[str, str]:
    if wanted == REHEARSAL:
        return dict(tasks[0][REHEARSAL])
    return dict(tasks[0]["module_defaults"]["group/gpufleet.bringup.site"])


@pytest.mark.parametrize(("role", "wanted"), [("roles/preflight", INVENTORY), ("rehearsal/roles/rehearsal", REHEARSAL)])
def test_every_option_is_read_from_the_variable_that_the_role_reads(repository: Path, role: str, wanted: str) -> None:
    tasks = yaml.safe_load((repository / f"{role}/tasks/main.yml").read_text("utf-8"))
    used = ("group", "gates", "from_gate", "recipe_data", *CALLED[wanted])
    options = given(tasks, wanted)
    looked_at = options if wanted == INVENTORY else {name: options[name] for name in used}
    assert len(looked_at) > 8
    assert {
        name: text for name, text in looked_at.items() if CALLED[wanted].get(name, f"gpufleet_{name}") not in text
    } == {}
