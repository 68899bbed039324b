# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The operators of a rehearsal as one process: `python launch.py rehearsal.controllers --kubeconfig K --model M`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    from .main import main

    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of watches wait for the server; nothing of theirs has to be finished.
    os._exit(code)
