# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer `soak`: the results of the burn-in's rounds, as saved while it ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...outcome.codec import from_plain, load
from ...outcome.errors import InputError, NotFoundError
from ...site.model import Site
from ..spec import ObserveContext, Observer
from .model import ROUNDS, Soak


def observe(context: ObserveContext) -> Soak:
    """Return the saved rounds.

    Raises:
        NotFoundError: no round was begun in this run.
        InputError: the file cannot be read.
    """
    path = context.run_dir / ROUNDS
    if not path.is_file():
        raise NotFoundError(str(path), "is not there: no round was begun.", "run playbook gpufleet.bringup.burn_in")
    return load(Soak, path)


def restore(data: Any, _run_dir: Path, _site: Site) -> Soak:
    """Return the observation.

    Raises:
        InputError: it is not consistent: a result of a test or host that is not planned, or hours that are not above 0.
    """
    observed = from_plain(Soak, data, "observation soak")
    strange = {entry.host for entry in observed.results} - set(observed.hosts) or {
        e.test for e in observed.results
    } - set(observed.tests)
    if strange or not observed.hours > 0 or observed.schema_version != 1:
        text = f"is not whole: {', '.join(sorted(strange)) or 'its hours or its schema_version'} is not what was asked."
        raise InputError("observation soak", text, "run the burn-in again")
    return observed


OBSERVER = Observer("soak", Soak, observe, restore, saved=Soak)
