# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long phase conformance of a validation takes against the slowest of its checks.

    .cache/venv/bin/python bench/conformance.py [--checks NAMES] [--seconds 12]
    .cache/venv/bin/python bench/conformance.py --run .run/latest

The first declares the five checks that every recipe names, and lets the product look; their observers wait in place of
asking a cluster, each its share of the seconds that its checks say of themselves: the slowest takes `--seconds`.
The second reads when the observers of a validation began and how long they took, so it measures the cluster as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import PlannedCheck
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import saved_observation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import PhaseDeclaration, declare_phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import observe_phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import PHASE_GATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile

BUDGET = 1.10
PHASE = "conformance"
# Those of recipes/overlays/base.yaml.
FIVE = "platform-health,gpu-operator-health,dra-support,accelerator-metrics,ai-service-metrics"


def declared(names: Sequence[str]) -> tuple[Site, dict[str, Any], PhaseDeclaration]:
    """Return a site, its recipe, and what the phase declares there."""
    site = Site(
        name="bench", profile=SiteProfile.CLOUD, hosts=(Host(name="gpu01", sku="dgx-h100", node_name="gpu01"),),
        capabilities=("kubernetes", "pods", "dra", "prometheus"),
    )  # fmt: skip
    recipe = {"validation": {PHASE: {"checks": list(names)}}}
    return site, recipe, declare_phase(PHASE, site, recipe, components=("gpu-operator",))


def durations(declaration: PhaseDeclaration, slowest_s: float) -> dict[str, float]:
    """Return how long each observer waits, by its key: what its checks say of themselves, in one scale."""
    needed: dict[str, float] = {}
    for planned in (planned for part in declaration.parts for planned in part.checks):
        key = planned.observer.key
        needed[key] = max(needed.get(key, 0.0), planned.spec.duration_s)
    scale = slowest_s / max(needed.values())
    return {key: seconds * scale for key, seconds in needed.items()}


def waited(names: Sequence[str], slowest_s: float) -> tuple[float, dict[str, float]]:
    """Return how long the phase looks where observers wait, and how long each took."""
    site, recipe, declaration = declared(names)
    seconds = durations(declaration, slowest_s)

    def waiting(planned: PlannedCheck) -> PlannedCheck:
        def wait(_context: ObserveContext) -> dict[str, str]:
            sleep(seconds[planned.observer.key])
            return {}

        return replace(planned, observer=replace(planned.observer, observe=wait))

    parts = (replace(part, checks=tuple(map(waiting, part.checks))) for part in declaration.parts)
    declaration = replace(declaration, parts=tuple(parts))
    with TemporaryDirectory() as text:
        path = Path(text)
        context = ObserveContext(site=site, run_dir=path, today=date.today(), recipe=recipe)
        run = cast(Run, SimpleNamespace(path=path, recipe=recipe, site=site))
        begun = monotonic()
        found = observe_phase(run, declaration, lambda _gate: (context, None))
        took_s = monotonic() - begun
    wrong = [f"{entry.key}: {entry.error}" for entry in found if entry.error is not None]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return took_s, {entry.key: entry.duration_s for entry in found}


def recorded(directory: Path) -> tuple[float, dict[str, float]]:
    """Return the same of a validation that a run directory holds: from the first begin to the last end."""
    spans = {}
    for gate in PHASE_GATES[PHASE]:
        for path in sorted((directory / "observations" / gate).glob("*.json")):
            seen = saved_observation(directory, gate, path.stem)
            begun = datetime.fromisoformat(seen.started.replace("Z", "+00:00")).timestamp()
            spans[path.stem] = begun, begun + seen.duration_s
    if not spans:
        raise SystemExit(f"{directory}: no observations of phase {PHASE}")
    took_s = max(end for _begun, end in spans.values()) - min(begun for begun, _end in spans.values())
    return took_s, {key: end - begun for key, (begun, end) in spans.items()}


def main(argv: Sequence[str]) -> int:
    """Measure, print, and return 1 if the phase took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", default=FIVE, help="names of a recipe, with commas")
    parser.add_argument("--seconds", type=float, default=12.0, help="seconds of the slowest")
    parser.add_argument("--run", type=Path, help="a run directory in place of observers that wait")
    given = parser.parse_args(argv)
    took_s, seconds = recorded(given.run) if given.run else waited(given.checks.split(","), given.seconds)
    for key, value in sorted(seconds.items(), key=lambda entry: -entry[1]):
        print(f"{key:20} {value:8.2f} s")
    slowest_s = max(seconds.values())
    ratio = took_s / slowest_s
    print(f"one after another {sum(seconds.values()):.2f} s, {sum(seconds.values()) / slowest_s:.3f} times the slowest")
    print(f"taken {took_s:.2f} s, {ratio:.3f} times the slowest, budget {BUDGET}")
    return int(ratio > BUDGET)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
