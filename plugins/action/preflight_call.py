# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module preflight_call: whether the request of this command can be carried out as it is."""

from __future__ import annotations

from typing import Any

from ansible import context
from ansible.release import __version__ as ansible_version

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import refuse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.call import (
    Stated,
    collection_problems,
    inventory_problems,
    inventory_warnings,
    limit_problems,
    option_problems,
    require_ansible,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.extra_words import unnamed_words
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REHEARSAL
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interpreter import require_packages


class ActionModule(ModuleAction):
    """Check packages, options and variables."""

    module = "preflight_call"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        require_ansible(ansible_version)
        require_packages()
        # Without its inventory no variable has its value: that is all there is to report.
        refuse("this command", [*inventory_problems(context.CLIARGS.get("inventory") or ())])
        missing = list(collection_problems(options["collections"]))
        if REHEARSAL in options["collections"]:
            # Nor does anything read the variables of a rehearsal.
            refuse("this command", missing)
        problems: list[BringupError] = list(unnamed_words(context.CLIARGS.get("extra_vars") or ()))
        problems += option_problems(task_vars, set(self._task.tags) - {"always"}, options["tags"])
        if not options["limit"]:
            problems += limit_problems(task_vars)
        configured = Stated(task_vars)
        problems += [
            *configured.problems(),
            *configured.of_choices(options["choices"]),
            *configured.of_places(options["places"]),
            *configured.of_hosts(options["hosts"]),
            *configured.of_tasks(options["tasks"]),
            *configured.missing(options["one_of"], task_vars),
            *configured.needed(options["all_of"]),
            *configured.declared(options["declared"]),
            *missing,
        ]
        if problems and options["followed_by"]:
            # It loads what the next check needs: only where there will be none.
            from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.ahead import with_problems_ahead

            problems = with_problems_ahead(options["followed_by"], problems, configured, task_vars, self._templar)
        refuse("this command", problems)
        return {"changed": False, "warnings": [*configured.warnings(), *inventory_warnings(task_vars)]}
