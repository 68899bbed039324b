# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host at a time: what a judge of a host gets, and how its report becomes outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ...hardware.sku import Sku
from ...outcome.model import Outcome, Subject, SubjectKind
from ...site.model import Host
from ..spec import CheckSpec, JudgeContext
from .answer import Answer
from .finding import Report, conclude, one_per_cause

Seen = TypeVar("Seen")
T = TypeVar("T")


@dataclass(frozen=True)
class HostContext(Generic[Seen]):
    """One host as a judge gets it: `seen` is the observation of all hosts, `entry` the host's inventory entry."""

    spec: CheckSpec
    context: JudgeContext
    seen: Seen
    entry: Host

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def sku(self) -> Sku:
        """The hardware facts of the host. per_host makes sure that there are some."""
        return self.context.hardware[self.entry.sku]

    @property
    def answer(self) -> Answer:
        """Makes the outcomes about this host."""
        return Answer.about_host(self.spec, self.context, self.name)

    def settings(self, kind: type[T]) -> T:
        """Return the settings of this check for this host."""
        return self.context.settings_of(self.spec.id, kind, self.entry.sku)

    def part(self, kind: SubjectKind, name: str) -> Subject:
        """Return the subject of a part of this host, such as `gpu01/gpu3`."""
        return Subject(kind, f"{self.name}/{name}", self.name)


AnyHost = TypeVar("AnyHost", bound=HostContext[Any])


def per_host(
    make: Callable[[CheckSpec, JudgeContext, Seen, Host], AnyHost],
    spec: CheckSpec,
    observed: Seen,
    context: JudgeContext,
    judge_host: Callable[[AnyHost], Report | Outcome],
    *,
    before: Callable[[AnyHost], Outcome | None] = lambda _host: None,
    needs_sku: bool = True,
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope. Findings of a host that share a cause are one outcome.

    Args:
        make: the gate's HostContext.
        spec: the check.
        observed: the observation of all hosts.
        context: the context of the judgement.
        judge_host: judges one host.
        before: returns the outcome of a host that cannot be judged, None if it can be.
        needs_sku: the judge uses the hardware facts of the host.
    """
    outcomes: list[Outcome] = []
    for entry in context.site.in_scope:
        host = make(spec, context, observed, entry)
        result = before(host) or (_sku_unknown(host) if needs_sku else None) or judge_host(host)
        if isinstance(result, Report):
            outcomes += conclude(host.answer, replace(result, findings=one_per_cause(result.findings)))
        else:
            outcomes.append(result)
    return tuple(outcomes)


def _sku_unknown(host: HostContext[Any]) -> Outcome | None:
    if host.entry.sku in host.context.hardware:
        return None
    return host.answer.unknown(
        "sku-unknown", f"no hardware facts for SKU {host.entry.sku!r}", f"correct gpufleet_sku of {host.name}"
    )
