# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading the gates after one that did not pass: what else is wrong, so that one visit to the data hall fixes all of
it.

Everything is in a separate directory in the run, with a copy of the run's own data. It opens no gate, is not part of a
gate's results, and no later run takes it over.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from fnmatch import fnmatchcase

from ..check.declare import GatePlan
from ..check.judge import judge_gate
from ..check.nodes.dcgm_diag_settings import DCGM_DIAG
from ..component_stack.model import INSTALL_RESULT
from ..outcome.codec import dumps
from ..outcome.errors import BringupError
from ..outcome.gates import GATES, gate_spec
from ..outcome.model import Outcome, Status
from ..report.ctrf import write_suite
from ..report.facts import LOOKS, look_path
from ..runtime.files import CLUSTER, HARDWARE, RECIPE, RUN, SETTINGS, SITE, make_dirs, write_atomic, writing
from ..runtime.progress import Emit
from ..store.database import place_of
from ..store.history import open_store
from ..verdict.run import RunRecord
from .decision import run_day
from .observing import observe_gate
from .run import Run
from .same_cluster import cluster_of_gate
from .version import collection_version

# What the run knows about its site; observers and judges need nothing else.
_COPIED = (RUN, SITE, HARDWARE, SETTINGS, RECIPE, CLUSTER)
_READABLE = tuple(gate.id for gate in GATES if gate.reads_on_failure)
# Checks of the diagnostic, which loads the GPUs and is left out.
_OF_THE_LOAD = frozenset({DCGM_DIAG, "gpu-pcie-load", "host-state-after-diag"})


def gates_to_read(run: Run, configured: bool | None, store: str | None) -> tuple[str, ...]:
    """Return the gates to read further.

    With `configured` the user decides; without it they are read in a first bring-up. The directory for them is created.

    Raises:
        UnavailableError: it cannot be written.
    """
    wanted = _first_bring_up(run.record, store) if configured is None else configured
    gates = tuple(gate for gate in _waiting(run.record) if _readable(run, gate).checks) if wanted else ()
    if gates:
        directory = run.path / LOOKS
        with writing(directory):
            make_dirs(directory)
            for name in (name for name in _COPIED if (run.path / name).is_file()):
                shutil.copy(run.path / name, directory / name)
    return gates


def _waiting(record: RunRecord) -> tuple[str, ...]:
    return tuple(gate for gate in _READABLE if gate in record.scope and record.gate(gate).status is Status.PENDING)


def _first_bring_up(record: RunRecord, store: str | None) -> bool:
    """Return whether the last gate of the scope never passed at this site, by the history."""
    if not store:
        return True
    try:
        known = open_store(place_of(store)).last_passes(record.site, rehearsal=record.rehearsal)
    except BringupError:
        return True
    return all(entry.gate != record.scope[-1] for entry in known)


def _readable(run: Run, gate: str) -> GatePlan:
    declaration, patterns = run.declaration(gate), gate_spec(gate).reads_on_failure
    ids = {check.id for check in declaration.checks} - set(_OF_THE_LOAD)
    return declaration.only({name for name in ids if any(fnmatchcase(name, pattern) for pattern in patterns)})


def look_on(run: Run, emit: Emit, connections: dict[str, str], helm: str) -> dict[str, tuple[Outcome, ...]]:
    """Judge what was read of each gate, write what is wrong to looks/<gate>.json and into the reports, and return it.

    What could not be read is included; what only waits for another check is not. None of it is a pass.
    """
    observed = Run(run.path / LOOKS)
    # Where the installer would record which helm reads the cluster.
    write_atomic(observed.path / INSTALL_RESULT, dumps({"schema_version": 1, "helm": helm}))
    found: dict[str, tuple[Outcome, ...]] = {}
    for gate in _waiting(observed.record):
        declaration = _readable(observed, gate)
        if not declaration.checks:
            continue
        uid, refused = _cluster(run, gate, connections)
        context = replace(observed.observe_context(run_day(observed.record), emit, connections), cluster_uid=uid)
        observe_gate(declaration, context, check_mode=True, refused=refused)
        outcomes = judge_gate(declaration, observed.judge_context(gate, run_day(observed.record)), observed.path)
        found[gate] = tuple(o for o in outcomes if o.status in (Status.FAILED, Status.OTHER) and not o.blocked_by)
        write_suite(
            look_path(run.path, gate), gate, found[gate],
            run_id=run.record.run_id, rehearsal=run.record.rehearsal, version=collection_version(),
        )  # fmt: skip
    run.write_report(run.record)
    return found


def _cluster(run: Run, gate: str, connections: dict[str, str]) -> tuple[str | None, BringupError | None]:
    try:
        return cluster_of_gate(run, gate, connections), None
    except BringupError as error:
        return None, error
