# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""validate-modules does not look at action-backed modules: every argument spec comes from its documentation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from both import COLLECTIONS

ROOT = Path(__file__).resolve().parents[4]
ACTIONS = sorted(
    path.stem if name == "gpufleet.bringup" else f"{name}.{path.stem}"
    for name, root in COLLECTIONS.items()
    for path in root.glob("plugins/action/*.py")
)
# In a process of its own: Ansible's collection loader replaces the plain imports of the tests.
_PRINT_SPECS = """
import json, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import argument_spec
found = {}
for action in sys.argv[2:]:
    try:
        found[action] = argument_spec(action)
    except Exception as error:
        found[action] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def specs() -> dict[str, Any]:
    """The argument spec of every action, or the text of what went wrong."""
    argv = [sys.executable, "-c", _PRINT_SPECS, str(ROOT / ".cache"), *ACTIONS]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_documentation_that_gives_its_argument_spec(action: str, specs: dict[str, Any]) -> None:
    spec = specs[action]
    assert isinstance(spec, dict), spec
    for name, option in spec.items():
        assert option.get("type"), f"{action}: option {name} has no type"
        if option["type"] == "list":
            assert option.get("elements"), f"{action}: option {name} has no elements"


def test_the_actions_of_both_collections_are_looked_at() -> None:
    assert {"gate", "gpufleet.rehearsal.rehearsal_start"} <= {*ACTIONS}
