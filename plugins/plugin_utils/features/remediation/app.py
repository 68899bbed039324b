# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Carrying out the steps about nodes: in Kubernetes or Slurm, in the history, as labels, and to a webhook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ...clients.http.routes import UrlRoute
from ...clients.http.session import HttpSession
from ...clients.kube.cluster import Cluster
from ...clients.kube.objects import NODES
from ...clients.kube.permission import Permission
from ...outcome.errors import BringupError, InputError
from ...outcome.wording import first_of
from ...runtime.redaction import redact
from ...runtime.strict import decode
from ...store.records import OurCordon

# What is done about bad nodes by the policy of a site: which are taken out, which return, which stay. Pure.

# The policy of a site about bad nodes. Without a policy nothing is done. Pure.

LABEL, CORDON, SLURM_DRAIN, WEBHOOK = "label", "cordon", "slurm_drain", "webhook"
ACTS = (LABEL, CORDON, SLURM_DRAIN, WEBHOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemediationPolicy:
    """What is done about a bad node, beside the report, which is always written.

    `acts`: `label` (the class as a label of the node), `cordon` (taint and cordon with our mark), `slurm_drain` (drain
    with our reason), `webhook` (a POST to `webhook_url`). `breaker_percent`: the largest share of the nodes of the
    site, and of a cohort, that we may keep out of service; beyond it no more are taken out. `budget`: the most nodes
    that one cycle takes out. `give_back`: whether a node that we took out returns once it is healthy.
    """

    acts: tuple[str, ...] = ()
    breaker_percent: float = 10.0
    budget: int = 5
    give_back: bool = True
    webhook_url: str = ""
    webhook_ca_file: str = ""
    webhook_token_file: str = ""
    webhook_timeout_s: float = 10.0
    scontrol: str = "scontrol"

    def __post_init__(self) -> None:
        """Refuse values that have no meaning.

        Raises:
            InputError: the field, its value, and its allowed values.
        """
        unknown = sorted(set(self.acts) - set(ACTS))
        if unknown:
            reported = f"names {', '.join(map(repr, unknown))}, expected {', '.join(ACTS)} or nothing."
            raise InputError("continuous policy acts", reported, "acts: [label, cordon]")
        if {CORDON, SLURM_DRAIN} <= set(self.acts):
            reported = "names cordon and slurm_drain, and one of them owns the nodes."
            raise InputError("continuous policy acts", reported, "acts: [cordon], or acts: [slurm_drain]")
        if not 0 < self.breaker_percent <= 100:
            reported = f"is {self.breaker_percent:g}, expected more than 0 and at most 100."
            raise InputError("continuous policy breaker_percent", reported, "breaker_percent: 10")
        if self.budget < 0:
            raise InputError("continuous policy budget", f"is {self.budget}, expected 0 or more.", "budget: 5")
        if not 0 < self.webhook_timeout_s <= 60:
            reported = f"is {self.webhook_timeout_s:g}, expected more than 0 and at most 60."
            raise InputError("continuous policy webhook_timeout_s", reported, "webhook_timeout_s: 10")
        if (WEBHOOK in self.acts) != bool(self.webhook_url):
            reported = "and webhook_url go together, found only one of them."
            raise InputError("continuous policy act webhook", reported, "acts: [webhook] and webhook_url: https://...")
        if self.webhook_url and urlsplit(self.webhook_url).scheme != "https" and not _on_this_machine(self.webhook_url):
            reported = "is not https; a token would be read on its way."
            raise InputError("continuous policy webhook_url", reported, "webhook_url: https://...")

    @property
    def takes_out(self) -> bool:
        """Whether it takes nodes out of service."""
        return bool({CORDON, SLURM_DRAIN} & set(self.acts))


def policy_of(configured: Mapping[str, Any]) -> RemediationPolicy:
    """Return the policy that a site configures, by the names of its fields.

    Raises:
        ProblemsError: unknown names, and values that have no meaning.
    """
    return decode(RemediationPolicy, dict(configured), "gpufleet_continuous_policy")


def _on_this_machine(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


# What to do about the nodes of a site after their classes: which are taken out, which return, which stay. Pure. The
# breaker counts everything that we would keep out of service. Where that is more than its share of the site or of a
# cohort, no more nodes are taken out, because so many have a shared cause. The budget only spreads over cycles what the
# breaker allows. A fault that hit many nodes and is over (an image, a driver) leaves them bad until several good
# results in a row have cleared each. These do not count for the breaker, and nodes that still fail do not wait behind
# them: a bad node whose newest result is good is left where it is, and the others are taken out in the order of how
# often in a row they failed.

BAD, HEALTHY = "bad", "healthy"
_GOOD_SINCE = "its newest result is good; it is taken out if one more is not, and healthy after some more"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemediationSite:
    """What is known about a site.

    `words` has the class by node. `out` are nodes that we keep out of service now, `recorded` those of them in our
    history, `elsewhere` those that a roll of ours keeps out. `cohorts` has what each node shares with others.
    `in_a_row` has for bad nodes how many of their newest results in a row are bad (1 where it is missing).
    """

    words: Mapping[str, str]
    out: Collection[str] = ()
    recorded: Collection[str] = ()
    elsewhere: Collection[str] = ()
    cohorts: Mapping[str, Collection[str]] = field(default_factory=dict)
    in_a_row: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemediationSteps:
    """What to do: nodes to `take` out, to `keep` out (their reason is written anew), to `give_back`.

    `record` and `forget` change the history only. `left` says by node why nothing is done about a bad one. `stopped`
    says why the breaker stops it, empty if it does not.
    """

    take: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    give_back: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""


def steps(site: RemediationSite, policy: RemediationPolicy) -> RemediationSteps:
    """Return what to do about the nodes, in the order of their names; `take` has the worst first."""
    out, recorded = set(site.out), set(site.recorded)
    bad = [node for node, word in sorted(site.words.items()) if word == BAD]
    healthy = [node for node, word in sorted(site.words.items()) if word == HEALTHY]
    left = {
        node: "somebody gave it back since; it is not taken out again before it was healthy"
        for node in bad
        if node in recorded - out
    }
    wanted = [node for node in bad if node not in out and node not in left and node not in site.elsewhere]
    left |= {node: _GOOD_SINCE for node in wanted if _row(site, node) == 0}
    wanted = sorted((node for node in wanted if node not in left), key=lambda node: -_row(site, node))
    stopped = _stopped(wanted, out | set(site.elsewhere), site, policy)
    take = () if stopped else tuple(wanted[: policy.budget])
    for node in wanted:
        if node not in take:
            left[node] = stopped or f"the budget of {policy.budget} nodes a cycle is spent; the next cycle takes it out"
    return RemediationSteps(
        take=take,
        keep=tuple(node for node in bad if node in out),
        give_back=tuple(node for node in healthy if node in out) if policy.give_back else (),
        record=tuple(node for node in sorted(out - recorded) if site.words.get(node) != HEALTHY),
        forget=tuple(node for node in healthy if node in recorded - out),
        left=left,
        stopped=stopped,
    )


def _row(site: RemediationSite, node: str) -> int:
    return site.in_a_row.get(node, 1)


def _stopped(wanted: Sequence[str], out: set[str], site: RemediationSite, policy: RemediationPolicy) -> str:
    if not wanted:
        return ""
    groups: dict[str, set[str]] = {"the site": set(site.words)}
    for node, names in site.cohorts.items():
        for name in names:
            groups.setdefault(f"cohort {name}", set()).add(node)
    for name, members in groups.items():
        most = max(1, int(policy.breaker_percent * len(members) / 100))
        more = sorted(members & set(wanted))
        if more and len(members & out) + len(more) > most:
            return (
                f"the breaker holds: {len(members & out)} nodes of {name} are out by us and {len(more)} more are bad "
                f"({first_of(more, 4)}), which is more than {most} ({policy.breaker_percent:g}% of {len(members)}); "
                "look for what they share, then raise breaker_percent for one cycle or take them out by hand"
            )
    return ""


# Carrying out the steps about nodes: in Kubernetes or Slurm, and in the history of our cordons. A node is taken out
# first and recorded then: its mark in the cluster shows the owner, so the next cycle finds it if a controller dies in
# between.

# The mark of our cordons and taints, and the end of the reason of our drains.
OWNER = "continuous-validation"


class OperatorActions(Protocol):
    """Takes nodes out of service and gives them back. Every method may be called again after a crash."""

    def ours(self, nodes: Sequence[str]) -> Collection[str]:
        """Return the nodes that we keep out of service now."""

    def cordon(self, node: str) -> str:
        """Take the node out of service, with our mark; return why not, empty if our cordon is set."""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Write the reason on a node that is ours; `again`: only if no one gave it back meanwhile."""

    def give_back(self, node: str) -> str:
        """Put the node back into service if we keep it out; return as text what others still keep on it."""


class OperatorCordons(Protocol):
    """The history of our cordons (store.service)."""

    def add_cordon(self, site: str, cordon: OurCordon, *, rehearsal: bool) -> bool:
        """Record that we take a node out of service."""

    def lift_cordon(self, site: str, node: str, lifted: str, *, rehearsal: bool) -> bool:
        """Record when (UTC) a node was given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The site and cycle of the steps, and their time (UTC)."""

    site: str
    rehearsal: bool
    cycle_id: str
    now: str


def carry_out(
    todo: RemediationSteps,
    reasons: Mapping[str, str],
    hands: OperatorActions,
    cordons: OperatorCordons,
    turn: Turn,
    *,
    check_mode: bool = False,
) -> dict[str, str]:
    """Carry out the steps and return by node what was done, or in check mode what would be.

    A failed step is reported for its node and does not stop the others.
    """
    reported = {node: f"nothing was done: {why}" for node, why in todo.left.items()}
    if check_mode:
        reported |= dict.fromkeys(todo.take, "would be taken out of service")
        return reported | dict.fromkeys(todo.give_back, "would be given back")
    for node in todo.record:
        cordons.add_cordon(turn.site, _cordon(node, reasons, turn), rehearsal=turn.rehearsal)
    for node in todo.forget:
        cordons.lift_cordon(turn.site, node, turn.now, rehearsal=turn.rehearsal)
    for node in todo.keep:
        reported[node] = _reported(node, hands, reasons) or "stays out of service"
    for node in todo.take:
        reported[node] = _taken(node, hands, reasons, cordons, turn)
    for node in todo.give_back:
        reported[node] = _given_back(node, hands, cordons, turn)
    return reported


def _reported(node: str, hands: OperatorActions, reasons: Mapping[str, str]) -> str:
    try:
        hands.hold(node, redact(reasons.get(node, "")), again=True)
    except BringupError as error:
        return f"stays out of service; its reason could not be told: {redact(str(error))}"
    return ""


def _taken(node: str, hands: OperatorActions, reasons: Mapping[str, str], cordons: OperatorCordons, turn: Turn) -> str:
    try:
        problem = hands.cordon(node)
        if problem:
            return f"was not taken out of service: {problem}"
        hands.hold(node, redact(reasons.get(node, "")))
    except BringupError as error:
        return f"could not be taken out of service: {redact(str(error))}"
    cordons.add_cordon(turn.site, _cordon(node, reasons, turn), rehearsal=turn.rehearsal)
    return "was taken out of service"


def _given_back(node: str, hands: OperatorActions, cordons: OperatorCordons, turn: Turn) -> str:
    try:
        left = hands.give_back(node)
    except BringupError as error:
        return f"could not be given back: {redact(str(error))}"
    cordons.lift_cordon(turn.site, node, turn.now, rehearsal=turn.rehearsal)
    return f"was given back by us; {left}" if left else "was given back"


def _cordon(node: str, reasons: Mapping[str, str], turn: Turn) -> OurCordon:
    return OurCordon(
        node=node, by=f"{OWNER}/{turn.cycle_id}", reason=redact(reasons.get(node, ""))[:500], since=turn.now
    )


# The class of each node as a label of ours on it.

LABEL_KEY = "gpufleet.io/class"
# What labels, taints and cordons of a policy need; no pod is evicted.
RIGHTS = tuple(Permission(verb, "nodes") for verb in ("get", "list", "patch", "update"))


def label_nodes(
    cluster: Cluster, words: Mapping[str, str], names: Mapping[str, str], *, dry_run: bool = False
) -> tuple[str, ...]:
    """Set the label where it differs, and return the nodes where it did, by their names at the site.

    Args:
        cluster: the cluster.
        words: the class of each node.
        names: the names of the nodes in the cluster.
        dry_run: change nothing.
    """
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in cluster.list_objects(NODES)}
    changed = []
    for node, word in words.items():
        name = names[node]
        if name in labels and labels[name].get(LABEL_KEY) != word:
            cluster.patch(NODES, name, {"metadata": {"labels": {LABEL_KEY: word}}}, dry_run=dry_run)
            changed.append(node)
    return tuple(changed)


# Notification of another system, such as one for tickets: one POST of JSON.


def notify(policy: RemediationPolicy, body: Mapping[str, Any]) -> str:
    """Send it and return the problem, empty for none. The certificate is always checked.

    Secrets in its texts are masked first; the token is only in the header.
    """
    try:
        headers = {"Authorization": f"Bearer {_token(policy.webhook_token_file)}"} if policy.webhook_token_file else {}
        route = UrlRoute(policy.webhook_url, ca_cert=policy.webhook_ca_file)
        HttpSession(route, headers=headers, timeout_s=policy.webhook_timeout_s).text("POST", "", body=_redacted(body))
    except BringupError as error:
        return redact(str(error))
    return ""


def _token(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read: {error}.", "correct webhook_token_file") from None
    if not token or not token.isprintable():
        raise InputError(path, "holds no token of one line.", "correct webhook_token_file")
    return token


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(key): _redacted(entry) for key, entry in value.items()}
    return [_redacted(entry) for entry in value] if isinstance(value, (list, tuple)) else value
