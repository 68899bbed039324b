# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The process that owns a rehearsal: the `ansible-playbook` that started it."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import AbortedError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import (
    ProcessId,
    controller_pid,
    identify,
)


def controller_process() -> ProcessId:
    """Return the identity of the controller: an action runs in a worker that ansible-playbook forked.

    Raises:
        AbortedError: it is gone already.
    """
    pid = controller_pid()
    identity = identify(pid)
    if identity is None:
        raise AbortedError("rehearsal", f"the controller (pid {pid}) is gone.")
    return identity


def alive_check(controller: ProcessId) -> Callable[[], None]:
    """Return a function that raises AbortedError once the controller is gone."""

    def check() -> None:
        if not controller.alive():
            raise AbortedError("rehearsal", f"the controller (pid {controller.pid}) ended; stopping with it.")

    return check
