# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of the hosts of a Slurm without Kubernetes.

Each is a node that takes jobs, is in a partition, and offers the GPUs of its SKU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...outcome.errors import InputError
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...probe import slurm_config
from ...probe.slurm_config import SlurmConfig
from ...probe.slurm_nodes import HARMLESS_FLAGS, SlurmNode
from ...site.model import Host
from ..kit.answer import Answer
from ..kit.settings import setting
from ..spec import Check, CheckSpec, JudgeContext
from .observe_slurm_daemons import OBSERVER, SlurmDaemons
from .slurm_daemons import NODES_ID, config_of, in_scope, of_all, read

T = TypeVar("T")
_OURS = "gpufleet.bringup:"
_AT_WORK = HARMLESS_FLAGS | {"COMPLETING", "PLANNED", "RESERVED"}
_SHORT = re.compile(r"gres/gpu count (?:reported lower|too low)[^,]*")
_TYPED = re.compile(r"(?:^|,)gpu:([A-Za-z_][^\s:(),]*)")
_OVERRIDES = "config_overrides"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSettings:
    """Settings of check slurm-partitions."""

    names: tuple[str, ...] = setting(
        "Partitions that have to have every host; empty: one that is up is enough.", default=[]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GresSettings:
    """Settings of check slurm-gres."""

    counts: dict[str, int] = setting(
        "GPUs that Slurm gives out on a host, by SKU, where they are not those of the SKU, as with MIG.",
        default={},
        minimum=1,
    )
    types: dict[str, str] = setting("Type of the GPUs in slurm.conf, by SKU; of others no type is asked.", default={})


def _spec(check: str, title: str, causes: tuple[str, ...], settings: type[object] | None = None) -> CheckSpec:
    return CheckSpec(
        id=check, gate="gpu_stack", title=title, per=SubjectKind.NODE, only_on="slurm", causes=causes, settings=settings
    )


NODES = _spec(NODES_ID, "Each host is a node of Slurm that takes jobs", (
    "slurm-node-down", "slurm-node-missing", "slurm-node-unexplained",
))  # fmt: skip
PARTITIONS = _spec("slurm-partitions", "Each host is in a partition that is up", (
    "slurm-partition-down", "slurm-partition-missing",
), PartitionSettings)  # fmt: skip
GRES = _spec("slurm-gres", "Slurm gives out the GPUs of each host's SKU", (
    "slurm-gres-count", "slurm-gres-missing", "slurm-gres-short", "slurm-gres-type",
), GresSettings)  # fmt: skip


def _each(
    spec: CheckSpec,
    observed: SlurmDaemons,
    context: JudgeContext,
    prepare: Callable[[Answer], T | Outcome],
    judge: Callable[[Answer, Host, SlurmNode, T], Outcome],
) -> tuple[Outcome, ...]:
    """Judge the Slurm node of each host, with what `prepare` reads once for all of them.

    If that cannot be read, each host gets the outcome. A host without a node is reported by check slurm-nodes.
    """
    hosts = context.site.in_scope
    if not hosts:
        return ()
    first = Answer.about_host(spec, context, hosts[0].name)
    nodes = in_scope(first, observed)
    if isinstance(nodes, Outcome):
        return of_all(nodes, hosts)
    common = prepare(first)
    if isinstance(common, Outcome):
        return of_all(common, hosts)
    outcomes = []
    for host in hosts:
        answer, node = Answer.about_host(spec, context, host.name), nodes[host.name]
        if node is not None:
            outcomes.append(judge(answer, host, node, common))
        elif spec.id == NODES_ID:
            text = f"Slurm has no node {host.node_name}"
            hint = "name it in slurm.conf (NodeName=...), or correct gpufleet_node_name in the inventory"
            outcomes.append(answer.failed("slurm-node-missing", text, hint))
        else:
            outcomes.append(answer.blocked(by=NODES_ID, because=f"Slurm has no node {host.node_name}"))
    return tuple(outcomes)


def judge_nodes(observed: SlurmDaemons, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host. A drained node needs a reason, and a person who accepts it."""
    return _each(NODES, observed, context, lambda _answer: "", _node)


def _node(answer: Answer, host: Host, node: SlurmNode, _nothing: str) -> Outcome:
    by = f" (reason: {node.reason}, by {node.reason_by or 'an unknown user'})" if node.reason else " (without a reason)"
    reported = f"node {node.name} is {node.state}{by}"
    resume = f"scontrol update nodename={node.name} state=resume"
    evidence = (Evidence("scontrol show nodes", node.name, reported),)
    if node.down:
        look = f"on {host.name}: systemctl status slurmd munge; journalctl -u slurmd; then {resume}"
        return answer.failed("slurm-node-down", reported, look, evidence=evidence)
    if not node.version:
        text = f"node {node.name} never registered: Slurm has no release of its slurmd"
        return answer.failed("slurm-node-down", text, f"on {host.name}: systemctl status slurmd munge")
    aside = node.flags - _AT_WORK
    if aside and not node.reason:
        hint = f"find out who set it aside (sacctmgr list events nodes={node.name}), then {resume}"
        return answer.failed("slurm-node-unexplained", reported, hint, evidence=evidence)
    if aside:
        whose = "a drain of ours" if node.reason.startswith(_OURS) else "a drain of somebody else or of Slurm"
        hint = f"{whose}: mend the reason, then {resume}; or set the host aside (gpufleet_quarantine)"
        return answer.marginal("slurm-node-drained", reported, hint, evidence=evidence)
    return answer.passed(f"node {node.name} is {node.state}", measured=(Measure("state", node.state),))


def judge_partitions(observed: SlurmDaemons, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host. The node lists its partitions; the partitions report whether they are up."""
    wanted = context.settings_of(PARTITIONS.id, PartitionSettings).names

    def prepare(answer: Answer) -> dict[str, str] | Outcome:
        tool = slurm_config.PARTITION_TOOL
        return read(answer, observed.partitions, tool, lambda reported: slurm_config.partitions(reported.stdout))

    def judge(answer: Answer, _host: Host, node: SlurmNode, known: dict[str, str]) -> Outcome:
        return _partition(answer, node, known, wanted)

    return _each(PARTITIONS, observed, context, prepare, judge)


def _partition(answer: Answer, node: SlurmNode, known: dict[str, str], wanted: tuple[str, ...]) -> Outcome:
    has = sorted(node.partitions)
    facts = {"measured": (Measure("partitions", ", ".join(f"{name} {known.get(name, 'unknown')}" for name in has)),)}
    missing = [name for name in wanted if name not in has]
    if missing or not has:
        text = (
            f"node {node.name} is not in {', '.join(missing) or 'any partition'}; it is in {', '.join(has) or 'none'}"
        )
        hint = "add it to Nodes= of the partition in slurm.conf, and run scontrol reconfigure"
        return answer.failed("slurm-partition-missing", text, hint, **facts)
    requested = [name for name in has if name in wanted] if wanted else has
    unknown = [name for name in requested if name not in known]
    if unknown:
        text = f"Slurm does not say the state of partition {', '.join(unknown)}, which node {node.name} is in"
        return answer.unknown("slurm-partition-unseen", text, "scontrol show partitions (as an operator of Slurm)")
    down = [name for name in requested if known[name] != "UP"]
    if down if wanted else len(down) == len(requested):
        text = f"node {node.name}: {', '.join(f'partition {name} is {known[name]}' for name in down)}"
        hint = f"scontrol update partitionname={down[0]} state=up"
        return answer.failed("slurm-partition-down", text, hint, **facts)
    return answer.passed(f"in {', '.join(name for name in requested if name not in down)}", **facts)


def judge_gres(observed: SlurmDaemons, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host.

    A node has the GPUs that slurmd found, unless slurmctld is configured to trust slurm.conf.
    """
    settings = context.settings_of(GRES.id, GresSettings)

    def judge(answer: Answer, host: Host, node: SlurmNode, config: SlurmConfig) -> Outcome:
        if host.sku not in context.hardware:
            text = f"no hardware facts for SKU {host.sku!r}"
            return answer.unknown("sku-unknown", text, f"correct gpufleet_sku of {host.name}")
        # A node that is down can hide that its slurmd found too few GPUs: Slurm then reports what is configured.
        if not _SHORT.search(node.reason) and (node.down or not node.version):
            return answer.blocked(by=NODES_ID, because=f"node {node.name} is {node.state}: its GPUs are not known")
        count = settings.counts.get(host.sku, context.hardware[host.sku].gpus)
        try:
            believed = _OVERRIDES in config.said("SlurmdParameters").split(",")
            return _gres(answer, node, (count, settings.types.get(host.sku, "")), believed=believed)
        except InputError as error:
            return answer.unknown("slurm-unread", error.reason, error.hint)

    return _each(GRES, observed, context, lambda answer: config_of(answer, observed), judge)


def _gres(answer: Answer, node: SlurmNode, wanted: tuple[int, str], *, believed: bool) -> Outcome:
    count, kind = wanted
    found, types = node.gpus, sorted(set(_TYPED.findall(node.gres)))
    facts = {
        "measured": (Measure("Gres", node.gres or "none"),),
        "expected": (Expectation("GPUs", "==", count, Basis.HARDWARE, "count"),),
        "evidence": (
            Evidence("scontrol show nodes", node.name, f"Gres={node.gres or '(null)'} {node.reason}".strip()),
        ),
    }
    line = f"slurm.conf: GresTypes=gpu and NodeName={node.name} Gres=gpu:{f'{kind}:' if kind else ''}{count}"
    short = _SHORT.search(node.reason)
    if short:
        text = f"slurmd of {node.name} found too few GPUs: {short.group(0)}"
        resume = f"scontrol update nodename={node.name} state=resume"
        hint = f"on {node.name}: compare nvidia-smi -L with slurmd -G and gres.conf; then {resume}"
        return answer.failed("slurm-gres-short", text, hint, **facts)
    if found is None:
        text = f"Slurm gives out no GPU on {node.name}, expected {count}"
        return answer.failed("slurm-gres-missing", text, f"{line}; restart slurmctld and slurmd", **facts)
    if found != count:
        text = f"Slurm gives out {found} GPUs on {node.name} ({node.gres}), expected {count}"
        return answer.failed("slurm-gres-count", text, f"{line}; restart slurmctld and slurmd", **facts)
    if kind and types != [kind]:
        text = f"GPUs of {node.name} are of type {', '.join(types) or 'none'}, expected {kind}"
        return answer.failed("slurm-gres-type", text, f"{line}; and Type={kind} in its gres.conf", **facts)
    if believed:
        text = (
            f"Gres={node.gres} is what slurm.conf says: with {_OVERRIDES} slurmctld believes it whatever slurmd found"
        )
        hint = f"take {_OVERRIDES} out of SlurmdParameters, and restart slurmctld and slurmd"
        return answer.unknown("slurm-gres-believed", text, hint, **facts)
    return answer.passed(f"Gres={node.gres}", **facts)


CHECKS = (
    Check(NODES, OBSERVER, judge_nodes),
    Check(PARTITIONS, OBSERVER, judge_partitions),
    Check(GRES, OBSERVER, judge_gres),
)
