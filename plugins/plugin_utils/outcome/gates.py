# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The eight gates, the four phases of a validation, and burn-in: their order and properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import InputError

READINESS, DEPLOYMENT, CONFORMANCE, PERFORMANCE = "readiness", "deployment", "conformance", "performance"
# Burn-in is a separate phase.
BURN_IN = "burn_in"
ALL = "all"
# The four phases of a validation in their order.
PHASES = (READINESS, DEPLOYMENT, CONFORMANCE, PERFORMANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate with all its properties. Every list of gates is derived from these values.

    Args:
        number: 1..8.
        id: of its role, CTRF suite and settings.
        title: its topic in a few words.
        depends_on: the gate that must have passed before; empty: none.
        phases: phases of a validation with checks of this gate. The first one is that of checks without a phase.
        needs_api: it needs the API server, with the permissions of check/rights.py.
        over_slurm: it needs the API server, and also makes sense without one, where Slurm schedules the hosts.
        installs: it installs the recipe on the cluster. Where an operator installs the driver, it judges what needs
            one.
        only_looks: it installs, tests and loads nothing, so a run locks neither cluster nor hosts for it.
        needs_adapters: it needs to know which adapters of a host are for GPU traffic.
        asks_each_node: its checks of single nodes count for later runs once a wave has passed them.
        loads_hosts: its hosts are read before and after it, and judged by the difference.
        loads_fabric: one host reads the fabric before and after it.
        compared_as: its figures are compared with accepted ones and a contract, in checks whose id has this word;
            empty: they are not.
        fingerprint: facts of the whole run on which its results depend (run/site_state.py).
        host_facts: its results depend on facts of the hosts behind them.
        not_judging: settings that change no judgement: time limits, and the location of something whose content is a
            separate fact or a credential. All other settings are part of its results.
        read_early: settings for what is queried, installed or disturbed before the gates have their settings.
        reads_on_failure: patterns of ids of its checks that run without a test and without a load if an earlier gate is
            not passed.
    """

    number: int
    id: str
    title: str
    depends_on: str
    phases: tuple[str, ...] = ()
    needs_api: bool = False
    over_slurm: bool = False
    installs: bool = False
    only_looks: bool = False
    needs_adapters: bool = False
    asks_each_node: bool = False
    loads_hosts: bool = False
    loads_fabric: bool = False
    compared_as: str = ""
    fingerprint: tuple[str, ...] = ()
    host_facts: bool = True
    not_judging: tuple[str, ...] = ()
    read_early: tuple[str, ...] = ()
    reads_on_failure: tuple[str, ...] = ()


# In one file, since every action loads all gates: eight files would add seven modules to each.
GATES: tuple[Gate, ...] = (
    Gate(
        number=1, id="facility", title="Facility record and budgets", depends_on="",
        only_looks=True, host_facts=False,
        fingerprint=("record", "signature", "evidence", "in force"),
        not_judging=("record", "allowed_signers"), read_early=("record", "allowed_signers"),
    ),
    Gate(
        number=2, id="fabric", title="Fabric: subnet manager and links", depends_on="facility",
        only_looks=True, host_facts=False, needs_adapters=True,
        fingerprint=("topology", "cabling plan"),
        not_judging=("plan",), read_early=("plan",), reads_on_failure=("*",),
    ),
    Gate(
        number=3, id="nodes", title="Nodes: GPUs, HCAs, drivers", depends_on="fabric",
        asks_each_node=True, reads_on_failure=("*",),
    ),
    Gate(
        number=4, id="gpu_stack", title="GPU stack", depends_on="nodes", phases=(DEPLOYMENT, CONFORMANCE),
        needs_api=True, over_slurm=True, installs=True, asks_each_node=True,
        fingerprint=("recipe", "cluster"),
        read_early=(
            "system_selector", "system_tolerations", "tolerations", "storage_class", "shared_storage_class",
            "image_registry", "pull_secrets", "proxy",
        ),
        # The other checks are about what the gate installs, which is not there yet.
        reads_on_failure=("api-permissions", "node-ready"),
    ),
    Gate(
        number=5, id="telemetry", title="Telemetry and alerting", depends_on="gpu_stack", phases=(CONFORMANCE,),
        needs_api=True, over_slurm=True,
        fingerprint=("recipe", "cluster"),
        not_judging=("token_file", "ca_file", "timeout_s", "rule_interval_s", "ready_s", "load_s", "cleanup_s"),
    ),
    Gate(
        number=6, id="fabric_validation", title="NCCL fabric validation", depends_on="telemetry",
        phases=(PERFORMANCE,),
        needs_api=True, over_slurm=True, needs_adapters=True, loads_hosts=True, loads_fabric=True, compared_as="fabric",
        fingerprint=("topology",),
        not_judging=("timeout_s", "schedule_s", "total_s", "cleanup_s"),
    ),
    Gate(
        number=7, id="training_acceptance", title="Training acceptance", depends_on="fabric_validation",
        phases=(PERFORMANCE,),
        needs_api=True, needs_adapters=True, loads_hosts=True, compared_as="training",
        fingerprint=("recipe", "cluster", "topology"),
        not_judging=("timeout_s", "schedule_s", "stuck_s", "total_s", "cleanup_s"),
    ),
    # Inference depends on the validated fabric, not on the trained model.
    Gate(
        number=8, id="inference_acceptance", title="Inference acceptance", depends_on="fabric_validation",
        phases=(PERFORMANCE,),
        needs_api=True, loads_hosts=True, compared_as="inference",
        fingerprint=("recipe", "cluster"),
        not_judging=("timeout_s", "schedule_s", "total_s", "cleanup_s", "smoke_request_s", "load_request_s"),
    ),
)  # fmt: skip

GATE_IDS: tuple[str, ...] = tuple(gate.id for gate in GATES)
API_GATES: tuple[str, ...] = tuple(gate.id for gate in GATES if gate.needs_api)
LOADING_GATES: tuple[str, ...] = tuple(gate.id for gate in GATES if gate.loads_hosts)
COMPARED_GATES: dict[str, str] = {gate.id: gate.compared_as for gate in GATES if gate.compared_as}
STACK_GATE: str = next(gate.id for gate in GATES if gate.installs)


def gate_spec(gate_id: str) -> Gate:
    """Return the gate of that id.

    Raises:
        InputError: no such gate; the message lists the eight ids.
    """
    for gate in GATES:
        if gate.id == gate_id:
            return gate
    raise InputError(f"gate {gate_id!r}", f"no such gate; there are {', '.join(GATE_IDS)}.", "correct gpufleet_gates")


# Gates whose checks belong to a phase. Readiness comes before the first gate that changes a cluster, so its checks are
# in no gate. Burn-in is hours of load, so it is no phase of a validation.
PHASE_GATES: dict[str, tuple[str, ...]] = {
    READINESS: (READINESS,),
    **{phase: tuple(gate.id for gate in GATES if phase in gate.phases) for phase in PHASES if phase != READINESS},
    BURN_IN: (BURN_IN,),
}
# Phase of a check without a phase.
GATE_PHASE: dict[str, str] = {
    READINESS: READINESS,
    **{gate.id: gate.phases[0] for gate in GATES if gate.phases},
    BURN_IN: BURN_IN,
}


def asked_phases(names: Sequence[str]) -> tuple[str, ...]:
    """Return the named phases of a validation in their order, or all. Readiness always comes first.

    `all` is upstream's word for every phase.

    Raises:
        InputError: a name is not a phase.
    """
    unknown = [name for name in names if name not in (*PHASES, ALL)]
    if unknown:
        from difflib import get_close_matches

        there = ", ".join((*PHASES, ALL))
        near = get_close_matches(unknown[0], PHASES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "correct gpufleet_phases"
        raise InputError(f"phase {unknown[0]!r}", f"is none; there are {there}.", hint)
    return tuple(phase for phase in PHASES if not names or ALL in names or phase in names or phase == READINESS)
