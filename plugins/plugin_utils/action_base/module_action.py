# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The base of all action plugins: arguments from the module's documentation, progress to Display, errors as results."""

from __future__ import annotations

import errno
import os
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible.utils.display import Display

from ..outcome.errors import BringupError, InputError
from ..outcome.wording import shortened
from ..runtime.files import COLLECTION_ROOT, REHEARSAL, collection_root, write_problem
from ..runtime.interpreter import leave_inherited, missing_module
from ..runtime.interrupt import end_with_controller, interruptible
from ..runtime.redaction import redact
from ..runtime.text import visible
from ..store.database import VARIABLE, place_of, url_from
from .arguments import checked_options
from .closing import note, told_at_end

# The place of the history for every module with an option `store`: a server if the user configures one, else the file.

ENVIRONMENT = "GPUFLEET_STORE_URL"


def with_server(options: dict[str, Any], task_vars: Mapping[str, Any], templar: Templar) -> dict[str, Any]:
    """Return the options with the URL of the history in place of its file, where a URL is configured.

    The URL contains a password, so no task passes it on: arguments of tasks are shown and kept.

    Raises:
        BringupError: the value is not a URL of a PostgreSQL database, or its file cannot be read.
    """
    if "store" not in options:
        return options
    configured = templar.template(task_vars.get(VARIABLE) or "") or os.environ.get(ENVIRONMENT, "")
    if not isinstance(configured, str):
        raise InputError(
            VARIABLE, f"is {type(configured).__name__}; expected text.", "write a URL, or the path of its file"
        )
    url = url_from(configured.strip())
    if not url:
        return options
    place_of(url)
    return {**options, "store": url}


# --start-at-task skips the play that checks how a playbook was called, so every task of ours refuses it.


def refuse_start_in_the_middle(task: Any) -> None:
    """Return if the task belongs to a playbook of the user, or begins where its playbook does.

    Raises:
        InputError: a playbook of the collection was started in the middle.
    """
    requested = context.CLIARGS.get("start_at_task")
    place = Path(task.get_path().rpartition(":")[0]).resolve() if requested else None
    if place and any(place.is_relative_to(root) for root in (COLLECTION_ROOT, collection_root(REHEARSAL)) if root):
        hint = "leave it away; -e gpufleet_from_gate=nodes starts at a gate"
        raise InputError(f"--start-at-task {requested!r}", "leaves out the checks before it.", hint)


_DISPLAY = Display()
_LONGEST_LINE = 400
# Errors of the machine itself: no defect of ours.
_ENVIRONMENT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


class ModuleAction(ActionBase):  # type: ignore[misc,unused-ignore]
    """The action of a module: subclasses name it in `module` and do its work in `execute`."""

    module = ""
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the module's work and return its result.

        Raises:
            BringupError: becomes a failed result with subject, reason, hint and exit code.
        """
        raise NotImplementedError

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the arguments, execute, and turn every error into a result without a traceback."""
        del tmp
        leave_inherited()
        result: dict[str, Any] = super().run(task_vars=task_vars)
        result.setdefault("changed", False)
        try:
            end_with_controller()
            refuse_start_in_the_middle(self._task)
            options = with_server(checked_options(self.module, self._task), task_vars or {}, self._templar)
            with interruptible(f"module {self.module}"):
                result.update(self.execute(options, task_vars or {}))
        except BringupError as error:
            result.update(self._failed(error))
        except AnsibleConnectionFailure:
            raise
        except ModuleNotFoundError as missing:
            result.update(self._failed(missing_module(str(missing.name))))
        except Exception as crash:
            if type(crash).__module__.startswith("ansible."):
                raise
            _DISPLAY.vvv(traceback.format_exc())
            result.update(self._failed(_defect(self.module, crash)))
        if isinstance(result.get("msg"), str):
            # Callbacks print it as it is, and it may contain output of hosts and pods.
            result["msg"] = visible(result["msg"])
        note(result)
        return result

    def _failed(self, error: BringupError) -> dict[str, Any]:
        """Return the failed result; an error that ends the playbook is printed at its end, with the next step."""
        result = failed_result(error)
        if not error.told_in and _ends_the_playbook(self._task) and told_at_end(result["msg"]):
            return {**result, "msg": f"{error.subject}: what was found and what to do is at the end"}
        return result

    @property
    def check_mode(self) -> bool:
        """Whether nothing may be changed."""
        return bool(self._task.check_mode)

    def emit(self, line: str) -> None:
        """Show a progress line at once (arrives in ansible-runner as a verbose event of the task)."""
        _DISPLAY.display(f"  {shortened(visible(line), _LONGEST_LINE)}")

    def trace(self, text: str) -> None:
        """Show text for debugging (-vvv)."""
        _DISPLAY.vvv(text)


def _ends_the_playbook(task: Any) -> bool:
    """Return whether no part of the playbook reads the result of this task if it fails."""
    if task.ignore_errors or task.failed_when or task.loop is not None or task.loop_with or task.until:
        return False
    above = task._parent
    while above is not None:
        if getattr(above, "rescue", None):
            return False
        above = getattr(above, "_parent", None)
    return True


def _defect(module: str, crash: Exception) -> BringupError:
    if isinstance(crash, OSError) and crash.errno in _ENVIRONMENT:
        return write_problem(Path(crash.filename or tempfile.gettempdir()), crash)
    return BringupError(
        f"module {module}",
        f"crashed with {type(crash).__name__}: {redact(str(crash))[:400]}.",
        "this is a defect: run again with -vvv and report it",
    )


def failed_result(error: BringupError) -> dict[str, Any]:
    """Return the failed result for an error, without repeating what `msg` has.

    The error that stopped a run is printed whole at the end of the playbook, with the next step. Ansible shows the
    result of a task twice, so that gets a short text.
    """
    if error.told_in:
        where = (
            f"{error.subject}: the run was stopped; the reason and what to do are at the end, and in {error.told_in}"
        )
        return {"failed": True, "msg": where, "exit_code": error.exit_code}
    reported = {name: value for name, value in error.to_dict().items() if name in ("kind", "subject")}
    evidence = [text for text in error.evidence if text not in str(error)]
    return {
        "failed": True,
        "msg": str(error),
        "error": {**reported, **({"evidence": evidence} if evidence else {})},
        "exit_code": error.exit_code,
    }
