# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The request of a validation, as it is saved in the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...check.validators.catalog import ValidatorImage
from ...outcome.codec import load
from ...outcome.gates import READINESS
from ...run.run import Run

ASKED = "validation.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRequest:
    """The request of a validation: its phases in order, names of checks to leave out, and options.

    `snapshot` is the path of a supplied one (empty: one is taken), `max_age_s` how old it may be. `installed`: the
    recipe's components are there, so that nodes report their GPUs. `images` are validators of the site, and
    `node_selector` has the labels of the nodes that their own pods run on.
    """

    phases: tuple[str, ...] = (READINESS,)
    skip_checks: tuple[str, ...] = ()
    no_cluster: bool = False
    fail_fast: bool = False
    snapshot: str = ""
    max_age_s: float = 0.0
    installed: bool = False
    images: tuple[ValidatorImage, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = 1


def requested_of(run: Run) -> ValidationRequest:
    """Return the request of a run. A run that brings a cluster up observes its readiness.

    Raises:
        InputError: the file cannot be read.
    """
    path = run.path / ASKED
    return load(ValidationRequest, path) if path.is_file() else ValidationRequest()
