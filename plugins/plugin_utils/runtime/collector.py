# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Python's garbage collector: held while much is read and nothing thrown away, kept off what a fork inherits."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held() -> Iterator[None]:
    """Let the collector not run inside: it would look through all that was read, again and again, and find nothing.

    Only for work that ends and that waits for nobody. What counts its references is freed as ever.
    """
    ran = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if ran:
            gc.enable()


def leave_inherited() -> None:
    """In a process that was forked for one task: let the collector not look at what it inherited.

    It would find nothing to free there, and the kernel would copy every page that it looks at.
    """
    # Ansible has it already; whoever has not was not forked by multiprocessing.
    import multiprocessing

    if multiprocessing.parent_process() is not None:
        gc.freeze()
