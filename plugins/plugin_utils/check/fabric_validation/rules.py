# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the gate runs and judges, as data: recipes/thresholds/fabric_validation.yaml with the site's own values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ...outcome.errors import InputError
from ...runtime.recipe_files import RECIPES
from ...runtime.strict import decode, nearest_hint, read_yaml
from ...verdict.ceiling import CeilingLimits
from ...verdict.peers import PeerLimits

GATE = "fabric_validation"
_FILE = RECIPES / "thresholds" / "fabric_validation.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How nccl-tests is run; see the file."""

    image: str
    program: str
    kind: Literal["gang-job", "mpijob"]
    smallest: int
    largest: int
    factor: int
    rail_smallest: int
    parallel: int
    timeout_s: float
    schedule_s: float
    total_s: float
    cleanup_s: float
    repeats: int
    rail_samples: int
    queue: str
    rdma_resource: str
    rdma_count: int
    hcas: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (0 < self.smallest < self.largest and self.factor >= 2 and self.repeats >= 1 and self.parallel >= 1):
            reason = "smallest < largest, factor of 2 or more, one repeat and one job at a time are expected."
            raise InputError(f"settings of {GATE}", reason, "correct gpufleet_settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What is judged by; see the file."""

    bad: float
    marginal: float
    plateau_gain: float
    peer_tolerance: float
    peer_spreads: float
    peers_least: int
    cohort_share: float
    gpudirect: bool

    @property
    def ceiling(self) -> CeilingLimits:
        """The parts of the ceiling rule."""
        return CeilingLimits(bad=self.bad, marginal=self.marginal, plateau_gain=self.plateau_gain)

    @property
    def peers(self) -> PeerLimits:
        """The parts of the peer rule."""
        return PeerLimits(
            tolerance=self.peer_tolerance,
            spreads=self.peer_spreads,
            least=self.peers_least,
            share=self.cohort_share,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """How NCCL's network on a fabric is called, and whether it is a plugin."""

    names: tuple[str, ...]
    plugin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All of it; saved with the observation, so that a verdict can be computed again."""

    run: RunSettings
    judge: JudgeSettings
    networks: dict[str, NetworkFacts]
    rdma_resources: tuple[str, ...]


def load_rules(stated: dict[str, Any]) -> Rules:
    """Return the rules with a site's values in place of those that ship.

    Raises:
        InputError: an unknown setting, or a value of the wrong kind.
    """
    shipped = decode(Rules, read_yaml(_FILE), str(_FILE))
    parts = {"run": asdict(shipped.run), "judge": asdict(shipped.judge)}
    for name, value in stated.items():
        part = next((part for part in parts.values() if name in part), None)
        if part is None:
            known = [*parts["run"], *parts["judge"]]
            raise InputError(f"settings of {GATE}", f"there is no setting {name!r}.", nearest_hint(name, known))
        part[name] = value
    source = f"settings of {GATE}"
    return Rules(
        run=decode(RunSettings, _plain(parts["run"]), source),
        judge=decode(JudgeSettings, _plain(parts["judge"]), source),
        networks=shipped.networks,
        rdma_resources=shipped.rdma_resources,
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
