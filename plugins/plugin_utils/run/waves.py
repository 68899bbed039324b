# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many waves the diagnostic of a fleet takes, and what makes them fewer: known before the first host is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..check.kit.settings_layers import applied
from ..check.nodes.dcgm_diag_settings import DCGM_DIAG, DURATION_S, DcgmDiagSettings
from ..collect.tool_requests import LOADING_LEVEL
from ..outcome.gates import STACK_GATE
from ..runtime.clock import elapsed_text
from ..site.model import DriverOwner
from .inventory import CheckedInventory

# A fleet that takes longer is told how it takes less.
_MOST_WAVES = 8


@dataclass(frozen=True, slots=True)
class Waves:
    """So many hosts, so many at a time; `forks`: Ansible's, 0 where it does not ask the hosts itself."""

    hosts: int
    at_once: int
    forks: int

    @property
    def count(self) -> int:
        """How often the diagnostic runs, one after the other."""
        return math.ceil(self.hosts / self.at_once)

    @property
    def duration_s(self) -> float:
        """How long that takes."""
        return self.count * DURATION_S

    def lines(self) -> list[str]:
        """Return what a person should know: nothing where one wave is enough."""
        if self.count < 2:
            return []
        limit = f"forks = {self.forks}" if self.at_once == self.forks else f"{DCGM_DIAG}.at_once"
        takes = elapsed_text(self.duration_s)
        line = f"diagnostic: {self.hosts} hosts, {self.at_once} at a time ({limit}): about {takes}"
        if self.forks and self.count > _MOST_WAVES:
            wanted = math.ceil(self.hosts / _MOST_WAVES)
            way = f"--forks {wanted}" if self.at_once == self.forks else f"{DCGM_DIAG}.at_once={wanted}"
            line += f"; with {way} about {elapsed_text(_MOST_WAVES * DURATION_S)}"
        return [line]


def diagnostic_waves(checked: CheckedInventory, forks: int) -> Waves | None:
    """Return the waves of the diagnostic, None where none loads the GPUs (those of a rehearsal are none) or Ansible
    does not say how many forks it has.

    Args:
        checked: the site with its settings.
        forks: how many hosts Ansible works on at a time.
    """
    site, settings = checked.site, applied(checked.settings, DcgmDiagSettings, DCGM_DIAG)
    hosts, in_pods = len(site.in_scope), site.driver_owner is DriverOwner.OPERATOR
    gate = STACK_GATE if in_pods else "nodes"
    loads = settings.level >= LOADING_LEVEL and not site.rehearsal
    if not loads or gate not in site.gates or not hosts or not (in_pods or forks):
        return None
    at_once = settings.at_once_in_pods(hosts) if in_pods else settings.at_once_by_forks(forks)
    return Waves(hosts=hosts, at_once=at_once, forks=0 if in_pods else forks)
