# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starting a child that cannot outlive its parent."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def bound_to_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return a `preexec_fn` with which the kernel sends the child that signal as soon as its parent is gone.

    It guards against SIGKILL of the parent, which no handler sees. The kernel looks at the thread that started the
    child, so start children from the main thread.
    """
    parent = os.getpid()

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent went between fork and prctl
            os._exit(1)

    return bind
