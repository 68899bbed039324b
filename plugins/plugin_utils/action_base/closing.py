# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who prints what a run ends with: the callback where it is enabled, else the module."""

from __future__ import annotations

from ansible.constants import config

from ..run.version import COLLECTION


def printed_at_the_end() -> bool:
    """Tell whether the callback is enabled; an installed collection has no ansible.cfg that does it."""
    return f"{COLLECTION}.gates" in (config.get_config_value("CALLBACKS_ENABLED") or [])
