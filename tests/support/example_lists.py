# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which examples of `ansible-doc` do not run on a kept rehearsal, and why. Syntax and arguments of all are tested
by tests/unit/repository/test_examples.py."""

from __future__ import annotations

_STEP = "is a step of a run that a role begins, and needs what the steps before it left"
NOT_RUN = {
    "burn_in": "a soak takes hours",
    "baseline": "changes what is accepted, and takes back the third of the site's",
    "drift_report": "writes for node_exporter, outside the directory",
    "facility_record": "the record of the example inventory is signed, and is not overwritten",
    "fabric_probe": _STEP,
    "fleet_run": "writes outside the directory of runs",
    "history": "needs the database of another framework, and writes outside the directory",
    "check": _STEP,
    "clusters_run": "works on clusters of a fleet",
    "gate": _STEP,
    "node_plan_info": _STEP,
    "preflight_contact": _STEP,
    "preflight_controller": _STEP,
    "preflight_inventory": _STEP,
    "preflight_recipe": _STEP,
    "rehearsal_start": "a rehearsal is up",
    "rehearsal_stop": "ends the rehearsal that the others use",
    "resume": _STEP,
    "rma_pack": "needs a GPU that failed, and the report of its vendor's tool",
    "run_end": _STEP,
    "run_hold": _STEP,
    "run_look": _STEP,
    "validation_phase": _STEP,
    "validation_start": _STEP,
    "wave_plan": "writes outside the directory of runs",
    "wave_step": "needs a roll that was interrupted",
}
# Tasks of examples whose others run.
NOT_THIS_TASK = {
    "Install the components from the mirror of an air-gapped site": "needs a mirror in /srv",
    "What the new driver did": "names two runs of a reader",
    "Read the state of every host before NCCL loads it": _STEP,
}
