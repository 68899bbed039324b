# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: ranks of one Job find each other by name, and reach each other on every network of their pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...probe.rank_log import OK, RankSeen
from ..benchmark.preconditions import leftovers_of, no_run, of_problem, sku_unknown
from ..kit.answer import Answer
from ..kit.told_once import told_once
from ..spec import Check, CheckSpec, Disturbance, Equals, JudgeContext, needs
from .observe_ranks import OBSERVER
from .rank_model import CHECK_ID, NetworkingSettings, Plan, RankHost, Results, Run

# Which hosts are to blame for ranks that do not reach each other. Pure.

POD_NETWORK = "the pod network"


@dataclass(frozen=True, slots=True)
class Link:
    """What a host's rank observed of another one on a network: `ok`, or why it did not reach it."""

    host: str
    other: str
    said: str

    @property
    def good(self) -> bool:
        return self.said == OK

    def __str__(self) -> str:
        return f"{self.host} to {self.other}: {self.said}"


def links(observed: Mapping[str, RankSeen], places: Mapping[str, int]) -> dict[str, list[Link]]:
    """Return all links by network. `places` has the rank of every host.

    Ranks whose name was not resolved have no link on the pod network.
    """
    owners = {rank: host for host, rank in places.items()}
    found: dict[str, list[Link]] = {}
    for host, rank in observed.items():
        for pair in rank.pairs:
            other = owners.get(pair.peer)
            if other is None:
                continue
            if pair.named == OK:
                found.setdefault(POD_NETWORK, []).append(Link(host, other, pair.reached))
            for network, reported in pair.networks.items():
                # A host without an address in the network gets a finding of its own. The others are not to blame for
                # it.
                if other not in observed or observed[other].networks.get(network):
                    found.setdefault(network, []).append(Link(host, other, reported))
    return found


def to_blame(network: Collection[Link]) -> dict[str, tuple[Link, ...]]:
    """Return the hosts to blame on one network, each with its bad links.

    These are, in this order: hosts with more bad links than good ones, the worst first, since their links are bad for
    others too; then both ends of each bad link that is left; and any host without a single good link.
    """
    left, blamed = list(network), set[str]()
    while worst := _worst(left):
        blamed |= worst
        left = [link for link in left if worst.isdisjoint((link.host, link.other))]
    blamed |= {name for link in left if not link.good for name in (link.host, link.other)}
    blamed |= _ends(network) - _ends(link for link in network if link.good)
    found: dict[str, list[Link]] = {}
    for link in network:
        for name in {link.host, link.other} & blamed if not link.good else ():
            found.setdefault(name, []).append(link)
    return {name: tuple(found[name]) for name in sorted(found)}


def _ends(network: Iterable[Link]) -> set[str]:
    return {name for link in network for name in (link.host, link.other)}


def _worst(network: Collection[Link]) -> set[str]:
    """Return the hosts with the largest fraction of bad links, if that is above half of their links."""
    whole = Counter(name for link in network for name in (link.host, link.other))
    bad = Counter(name for link in network if not link.good for name in (link.host, link.other))
    shares = {name: number / whole[name] for name, number in bad.items() if 2 * number > whole[name]}
    largest = max(shares.values(), default=0.0)
    return {name for name, share in shares.items() if share == largest}


def unresolved(observed: Mapping[str, RankSeen], places: Mapping[str, int]) -> dict[str, str]:
    """Return the hosts to blame for names that were not resolved, each with the error.

    If ranks that resolve other names all fail to resolve one, its pod has no DNS record and is to blame. Otherwise the
    rank that failed is.
    """
    owners = {rank: host for host, rank in places.items()}
    requested = list(_requested(observed))
    resolves = {host for host, _peer, reported in requested if reported == OK}
    askers: dict[int, list[bool]] = {}
    for host, peer, reported in requested:
        if host in resolves:
            askers.setdefault(peer, []).append(reported == OK)
    found: dict[str, str] = {}
    for host, peer, reported in requested:
        if reported != OK:
            answers = askers.get(peer, [])
            nowhere = host in resolves and len(answers) > 1 and not any(answers)
            found.setdefault(owners.get(peer, host) if nowhere else host, reported)
    return found


def _requested(observed: Mapping[str, RankSeen]) -> Iterator[tuple[str, int, str]]:
    for host, rank in observed.items():
        for pair in rank.pairs:
            yield host, pair.peer, pair.named


SPEC = CheckSpec(
    id=CHECK_ID,
    gate="fabric_validation",
    title="Ranks of a Job find each other by name, and reach each other on every network",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=60.0,
    applies=(needs("kubernetes", "multi_node"), Equals()),
    causes=(
        "rank-name-unresolved",
        "pod-network-unreachable",
        "further-network-missing",
        "further-network-unreachable",
        "adapter-devices-missing",
    ),
    settings=NetworkingSettings,
)
_HINTS = {
    "image": "state an image with Python that the site has: gpufleet_settings: {job-networking: {image: ...}}",
    "no-output": "read the log of the run, then run the gate again",
}
_SHOWN = 3


@dataclass(frozen=True)
class _Cohort:
    """The last run over hosts of a SKU, with the hosts to blame."""

    plan: Plan
    run: Run

    @cached_property
    def seen(self) -> Mapping[str, RankSeen]:
        return self.run.seen

    @cached_property
    def unresolved(self) -> Mapping[str, str]:
        return unresolved(self.seen, self.run.record.places)

    @cached_property
    def links(self) -> Mapping[str, list[Link]]:
        return links(self.seen, self.run.record.places)

    @cached_property
    def ends(self) -> Mapping[str, Mapping[str, list[Link]]]:
        """The links of each network by the hosts at their two ends."""
        found: dict[str, dict[str, list[Link]]] = {}
        for network, entries in self.links.items():
            by_host = found.setdefault(network, {})
            for link in entries:
                for host in dict.fromkeys((link.host, link.other)):
                    by_host.setdefault(host, []).append(link)
        return found

    @cached_property
    def blamed(self) -> Mapping[str, Mapping[str, tuple[Link, ...]]]:
        return {network: to_blame(entries) for network, entries in self.links.items()}

    @cached_property
    def usual(self) -> frozenset[str]:
        """The further networks in which at least half of the ranks have an address.

        All pods are given the same ones.
        """
        names = {name for rank in self.seen.values() for name in rank.networks}
        half = len(self.seen) / 2
        return frozenset(n for n in names if sum(bool(rank.networks.get(n)) for rank in self.seen.values()) >= half)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host that has another one of its SKU."""
    alone = {host.name for host in context.site.without_equal}
    runs = {sku: run for sku in results.plan.skus if (run := results.last(sku)) is not None}
    cohorts = {sku: _Cohort(results.plan, run) for sku, run in runs.items()}
    outcomes = [
        _judge_host(Answer.about_host(SPEC, context, host.name), results, cohorts.get(host.sku), host)
        for host in results.plan.hosts
        if host.name not in alone
    ]
    return told_once(outcomes, (*context.site.waivers, *context.site.acceptances))


def _judge_host(answer: Answer, results: Results, cohort: _Cohort | None, host: RankHost) -> Outcome:
    plan = results.plan
    if host.sku not in answer.context.hardware:
        return sku_unknown(answer, host.sku)
    if host.closed:
        return answer.blocked(by="nccl-results", because=f"no run was possible: {host.closed}")
    if host.name in plan.without_adapters:
        return answer.blocked(by="nccl-transport", because=f"its node offers no {plan.resource}")
    if len(plan.together(host.sku)) < 2:
        return _without_partner(answer, plan, host)
    if cohort is None:
        return no_run(answer)
    facts: dict[str, Any] = {"evidence": _evidence(cohort.run)}
    if cohort.run.problem is not None:
        return of_problem(answer, cohort.run.problem, _HINTS, **facts)
    rank = cohort.seen.get(host.name)
    if rank is None:
        text = f"its rank did not come to its end: {cohort.run.record.reason or cohort.run.record.state}"
        return answer.unknown("no-output", text[:400], _HINTS["no-output"], **facts)
    facts |= _figures(cohort, host, rank)
    return _failure(answer, cohort, host, rank, facts) or _passed(answer, results, cohort, host, rank, facts)


def _without_partner(answer: Answer, plan: Plan, host: RankHost) -> Outcome:
    """Return the outcome for a host without any partner of its SKU. The check that excluded the others is named."""
    text = "no other host of its SKU can be run with it"
    others = [other for other in plan.hosts if other.sku == host.sku and other.name != host.name]
    if any(other.closed for other in others):
        return answer.blocked(by="nccl-results", because=text)
    if any(other.name in plan.without_adapters for other in others):
        return answer.blocked(by="nccl-transport", because=text)
    return answer.unknown("no-partner", text, "fix or add hosts of that SKU, then run the gate again")


def _failure(answer: Answer, cohort: _Cohort, host: RankHost, rank: RankSeen, facts: dict[str, Any]) -> Outcome | None:
    reported = cohort.unresolved.get(host.name)
    if reported:
        hint = "kubectl -n kube-system logs -l k8s-app=kube-dns; /etc/resolv.conf of a pod there; the headless Service"
        return answer.failed("rank-name-unresolved", f"a rank's name is not resolved: {reported}"[:400], hint, **facts)
    units = sum(int(amount) for amount in host.asks.values() if amount.isdecimal())
    if len(rank.devices) < units or (host.asks and not rank.devices):
        text = (
            f"its container sees {len(rank.devices)} RDMA devices (/dev/infiniband/uverbs*), it asked for {_asks(host)}"
        )
        hint = f"read the log of the device plugin on {host.node}; on the host: ls /dev/infiniband, lsmod (ib_uverbs)"
        return answer.failed("adapter-devices-missing", text, hint, **facts)
    lacking = sorted(name for name in cohort.usual if not rank.networks.get(name))
    if lacking or len(rank.networks) < cohort.plan.networks:
        text = f"its pod has {len(rank.networks)} further networks, {cohort.plan.networks} are asked for"
        if lacking:
            text = f"its pod has no address in {', '.join(lacking)}, as those of the other hosts have"
        hint = f"kubectl get network-attachment-definitions -A; the log of Multus and of its CNI on {host.node}"
        return answer.failed("further-network-missing", text, hint, **facts)
    for network, blamed in cohort.blamed.items():
        bad = blamed.get(host.name)
        if bad:
            return _unreachable(answer, host, network, bad, facts)
    return None


def _unreachable(answer: Answer, host: RankHost, network: str, bad: tuple[Link, ...], facts: dict[str, Any]) -> Outcome:
    shown = "; ".join(map(str, bad[:_SHOWN])) + (f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else "")
    if network == POD_NETWORK:
        hint = f"the CNI's pod on {host.node} and its log; routes, firewall and MTU between the nodes; network policies"
        return answer.failed("pod-network-unreachable", f"{network} leads to no rank: {shown}"[:500], hint, **facts)
    text = f"ranks do not reach each other on network {network}: {shown}"
    hint = f"ip -br addr and ip route in such a pod on {host.node}; VLAN, subnet and cabling of that adapter"
    return answer.failed("further-network-unreachable", text[:500], hint, **facts)


def _passed(
    answer: Answer, results: Results, cohort: _Cohort, host: RankHost, rank: RankSeen, facts: dict[str, Any]
) -> Outcome:
    left = leftovers_of(answer, results.leftovers)
    if left is not None:
        return left
    names = sorted(name for name, address in rank.networks.items() if address)
    for network in (POD_NETWORK, *names):
        ends = cohort.ends.get(network, {})
        if not any(link.good for link in ends.get(host.name, ())):
            text = f"on {network if network == POD_NETWORK else f'network {network}'} there was nobody to reach"
            return answer.unknown("no-partner", text, "fix the hosts that are reported, run the gate again", **facts)
    reached = sum(pair.reached == OK for pair in rank.pairs)
    text = f"found and reached {reached} of {len(rank.pairs)} ranks by name"
    if reached < len(rank.pairs):
        text += " (the others are told of by themselves)"
    if names:
        text += f", and on {len(names)} further networks ({', '.join(names)})"
    not_reporting = sorted(set(rank.networks) - set(names))
    if not_reporting:
        text += f"; {', '.join(not_reporting)} have no address and were not tried"
    if rank.devices and not names:
        text += (
            f"; its {len(rank.devices)} adapters have no address of their own: what they carry nccl-transport proves"
        )
    return answer.passed(text, **facts)


def _figures(cohort: _Cohort, host: RankHost, rank: RankSeen) -> dict[str, Any]:
    good = {
        network: sum(link.good for link in ends.get(host.name, ()) if link.host == host.name)
        for network, ends in cohort.ends.items()
    }
    measured = [Measure("ranks found by name", sum(pair.named == OK for pair in rank.pairs), "count")]
    measured += [Measure(f"ranks reached on {name}", number, "count") for name, number in sorted(good.items())]
    measured.append(Measure("RDMA devices in the container", len(rank.devices), "count"))
    return {
        "measured": tuple(measured),
        "expected": (Expectation("ranks looked for", "==", len(rank.pairs), Basis.RULE, "count"),),
    }


def _evidence(run: Run) -> tuple[Evidence, ...]:
    record = run.record
    return (
        Evidence(" ".join(record.command), record.name, f"{record.state} {record.reason}".strip()[:300], record.log),
    )


def _asks(host: RankHost) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(host.asks.items()))


CHECK = Check(SPEC, OBSERVER, judge)
