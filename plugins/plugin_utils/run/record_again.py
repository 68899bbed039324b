# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What run.json says of a run beside its verdicts, compared with what the run left: nothing else covers that file."""

from __future__ import annotations

from collections.abc import Iterator

from ..outcome.errors import BringupError
from ..outcome.model import Status
from ..runtime.run_dir import RUN, require_moment
from ..verdict.run import is_decided, with_site
from .asked import ASKED, asked_of
from .rehearsed import signs_of_rehearsal, unknown_cluster
from .run import Run

_FROM_INVENTORY = ("nodes", "quarantined", "site")


def record_differences(run: Run) -> list[str]:
    """Return a line for everything that the record says of the run and that its other files do not confirm."""
    try:
        return list(_differences(run))
    except BringupError as error:
        return [str(error)]


def _differences(run: Run) -> Iterator[str]:
    record = run.record
    signs = signs_of_rehearsal(run.path, record)
    if signs and not record.rehearsal:
        yield f"{RUN}: recorded as no rehearsal, and {signs[0]}"
    if not is_decided(record):
        return
    require_moment(run.path / RUN, record.started, record.run_id)
    if not record.rehearsal and not signs:
        unknown = unknown_cluster(run.path, record, kubernetes="kubernetes" in run.site.capabilities)
        yield from [unknown] if unknown else []
    inventory = with_site(record, run.site)
    for name in _FROM_INVENTORY:
        if getattr(record, name) != getattr(inventory, name):
            yield _other(name, getattr(record, name), getattr(inventory, name))
    # A cycle, a roll or a burn-in decides no gate.
    if record.work is not None and any(gate.status is not Status.PENDING for gate in record.gates):
        yield f"{RUN}: has a verdict of {record.work.verb}, and of gates, which that decides none of"
    if not record.validates and record.work is None and record.scope != run.site.gates:
        yield _other("scope", ", ".join(record.scope), ", ".join(run.site.gates))
    if (run.path / ASKED).is_file():
        lost = [phase for phase in asked_of(run).phases if record.phase(phase) is None]
        yield from [f"{RUN}: has no verdict of phase {', '.join(lost)}, and {ASKED} asks for it"] if lost else []


def _other(name: str, recorded: object, found: object) -> str:
    return f"{RUN}: {name}: recorded {recorded}, and the run's inventory has {found}"
