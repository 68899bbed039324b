# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is known before a gate is reached: the checks of release and site by id, and the gates that have any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..check.registry import all_checks, all_specs
from ..outcome.gates import GATE_IDS
from ..outcome.model import SubjectKind


def gates_of_release() -> tuple[str, ...]:
    """Return the gates that this release has checks for."""
    gates = {check.spec.gate for check in all_checks()}
    return tuple(gate for gate in GATE_IDS if gate in gates)


def checks_by_id(settings: Mapping[str, Any], check_dirs: tuple[str, ...] = ()) -> dict[str, SubjectKind]:
    """Return every check with the kind of its subjects: those of the release and of the site, and the site's
    third-party suites."""
    suites = [
        str(name)
        for options in settings.values()
        if isinstance(options, Mapping) and isinstance(options.get("ctrf"), Mapping)
        for name in options["ctrf"]
    ]
    return {spec.id: spec.per for spec in all_specs(check_dirs)} | dict.fromkeys(suites, SubjectKind.SITE)
