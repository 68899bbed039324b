# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer `host_state`: the hosts before and after the hours of load."""

from __future__ import annotations

from ...outcome.gates import BURN_IN
from ..kit.load_growth import growth_observer

OBSERVER = growth_observer(BURN_IN)
