# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Preflight of the controller: the Python packages and programs that the gates in scope need."""

from __future__ import annotations

import importlib.util
import shutil

from ..outcome.errors import BringupError, NotFoundError, ProblemsError
from ..outcome.gates import API_GATES, PHASE_GATES, STACK_GATE
from ..runtime.progress import Emit
from ..site.model import Site
from ..verdict.run import RunRecord
from .run import needs_recipe

# Python package (as imported) to its purpose; every run needs all of them.
_PACKAGES = {
    "cattrs": "reading and writing results",
    "yaml": "recipe data",
    "jmespath": "health checks of recipes",
    "junitparser": "JUnit files",
    "sqlalchemy": "the history of runs",
}


def check_controller(site: Site, record: RunRecord, helm: str, emit: Emit) -> None:
    """Look for what the run needs: its gates, or the phases of a validation.

    Raises:
        ProblemsError: everything that is missing, in one list.
    """
    problems: list[BringupError] = [
        NotFoundError(f"Python package {name}", f"is not installed; it is needed for {use}.", f"pip install {name}")
        for name, use in _packages(site).items()
        if importlib.util.find_spec(name) is None
    ]
    programs = _programs(site, record, helm)
    problems.extend(
        NotFoundError(f"program {name}", f"is not on PATH; {who}.", hint)
        for name, (who, hint) in programs.items()
        if shutil.which(name) is None
    )
    if problems:
        raise ProblemsError("controller", tuple(problems))
    emit(f"controller: packages and programs are there ({', '.join(programs) or 'no program needed'})")


def _packages(site: Site) -> dict[str, str]:
    return _PACKAGES | ({"kubernetes": "the API server"} if needs_api(site) else {})


def _programs(site: Site, record: RunRecord, helm: str) -> dict[str, tuple[str, str]]:
    programs: dict[str, tuple[str, str]] = {}
    if "facility" in site.gates and "facility_record" in site.capabilities:
        programs["ssh-keygen"] = ("gate facility needs it", "install the OpenSSH client")
    if who := _reads_releases(site, record):
        programs[helm] = (who, "install Helm 3.14 or newer and put it on PATH, or name it in gpufleet_helm")
    return programs


def _reads_releases(site: Site, record: RunRecord) -> str:
    """Return what reads releases with Helm, empty where nothing does: gate gpu_stack may be in scope for its recipe."""
    if not needs_recipe(site) or (record.work is not None and record.work.recipe_alone):
        return ""
    if not record.phases:
        return f"gate {STACK_GATE} needs it"
    asking = [verdict.gate for verdict in record.phases if STACK_GATE in PHASE_GATES[verdict.gate]]
    return f"the validation reads the releases with it (phase {', '.join(asking)})" if asking else ""


def needs_api(site: Site) -> bool:
    """Return whether a gate in scope uses the API server."""
    return any(gate_needs_api(site, gate) for gate in site.gates)


def gate_needs_api(site: Site, gate: str) -> bool:
    """Return whether that gate uses the API server."""
    return "kubernetes" in site.capabilities and gate in API_GATES
