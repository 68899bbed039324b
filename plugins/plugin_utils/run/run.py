# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run: its directory, its record, its site and the context for judging."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ..check.declare import Declaration, declare
from ..check.spec import JudgeContext
from ..hardware.sku import Sku
from ..outcome.codec import dumps, from_plain, load, load_json
from ..outcome.errors import InputError
from ..report.run_report import write_report
from ..runtime.files import write_atomic
from ..runtime.run_dir import HARDWARE, RECIPE, RUN, SITE
from ..site.model import Site
from ..verdict.run import RunRecord


@dataclass(frozen=True, slots=True)
class Run:
    """One run directory."""

    path: Path

    @property
    def site(self) -> Site:
        """The checked inventory."""
        return load(Site, self.path / SITE)

    @property
    def record(self) -> RunRecord:
        """The verdicts so far."""
        return load(RunRecord, self.path / RUN)

    @property
    def hardware(self) -> dict[str, Sku]:
        """The SKUs of this site, by the names that the inventory uses."""
        path = self.path / HARDWARE
        return {name: from_plain(Sku, plain, str(path)) for name, plain in load_json(path).items()}

    @property
    def recipe(self) -> dict[str, Any] | None:
        """The resolved recipe, None before gate gpu_stack resolved it."""
        path = self.path / RECIPE
        if not path.is_file():
            return None
        recipe = load_json(path)
        if not isinstance(recipe, dict) or not isinstance(recipe.get("deploymentOrder"), list):
            raise InputError(str(path), "is not a resolved recipe (no deploymentOrder).", "resolve the recipe again")
        return recipe

    @property
    def needs_recipe(self) -> bool:
        """Whether a gate in scope converges a recipe."""
        return needs_recipe(self.site)

    def judge_context(self, gate: str, today: date) -> JudgeContext:
        """Return what the judges of a gate may use."""
        return JudgeContext(gate=gate, site=self.site, today=today, hardware=dict(self.hardware), recipe=self.recipe)

    def declaration(self, gate: str) -> Declaration:
        """Return what that gate declares at this site with this recipe."""
        return declare(gate, self.site, components_of(self.recipe))

    def save_record(self, record: RunRecord) -> None:
        """Write the record and every report made from it; each file is whole or absent."""
        write_atomic(self.path / RUN, dumps(record))
        write_report(self.path, record)


def needs_recipe(site: Site) -> bool:
    """Tell whether a gate in the site's scope converges a recipe: the GPU stack on Kubernetes."""
    return "gpu_stack" in site.gates and "kubernetes" in site.capabilities


def components_of(recipe: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the recipe's components in deployment order."""
    return tuple(str(name) for name in (recipe or {}).get("deploymentOrder", ()))


def existing_run_dir(text: str) -> Path:
    """Return the run directory.

    Raises:
        InputError: it holds no run.
    """
    path = Path(text).expanduser()
    if not (path / RUN).is_file():
        raise InputError(str(path), "holds no run (no run.json).", "start a run with site.yml, or correct run_dir")
    return path.resolve()
