# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Completion in a shell, by the package argcomplete where it is installed."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser


def complete(parser: ArgumentParser) -> None:
    """Answer the shell that asked and end; without the package there is no completion, and nothing is said."""
    try:
        from argcomplete import autocomplete
    except ModuleNotFoundError:
        sys.stdout.flush()
        os._exit(1)
    autocomplete(parser)
