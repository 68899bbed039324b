# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""--start-at-task leaves out the play that checks how a playbook was called, so every task of ours refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import context

from ..outcome.errors import InputError
from ..runtime.recipe_files import COLLECTION_ROOT


def refuse_start_in_the_middle(task: Any) -> None:
    """Return if the task belongs to a playbook of the user, or begins where its playbook does.

    Raises:
        InputError: a playbook of the collection was started in the middle.
    """
    asked = context.CLIARGS.get("start_at_task")
    if asked and Path(task.get_path().rpartition(":")[0]).resolve().is_relative_to(COLLECTION_ROOT):
        hint = "leave it away; -e gpufleet_from_gate=nodes starts at a gate"
        raise InputError(f"--start-at-task {asked!r}", "leaves out the checks before it.", hint)
