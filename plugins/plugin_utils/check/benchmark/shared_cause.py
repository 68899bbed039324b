# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find what only the slow hosts share, before single hosts are blamed: rack, leaf, driver or firmware. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ...outcome.model import Outcome, Subject, SubjectKind
from ...verdict.shared import Shared, shared_by
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .preconditions import nodes

CAUSE = "slow-group"
_PLACES = ("rack", "leaf")
_HINTS = {
    "rack": "look at what the rack shares: power shelf, cooling, its leaf switches and their uplinks",
    "leaf": "look at these leaf switches: `ibqueryerrors`, `iblinkinfo`, their uplinks, firmware and configuration",
}
_SOFTWARE = "bring {kind} of these hosts to what the faster ones have, then run the gate again"


def explained(
    context: JudgeContext,
    slow: Collection[str],
    compared: Iterable[str],
    *,
    alone: bool = False,
    alike: Collection[str] = (),
) -> Shared | None:
    """Return what all slow hosts share and the other compared hosts do not. None: nothing explains them.

    Args:
        context: the context of the judgement.
        slow: the slow hosts.
        compared: all hosts that were compared.
        alone: one single host is faster than all others. Rack and leaf are then no explanation, since hosts of two
            racks always differ in their rack; software is.
        alike: hosts just above the limit, as slow as a slow one within the noise of the measurement. If they and the
            slow ones together are all hosts that share something, that explains the slow ones.
    """
    left_out = _PLACES if alone else ()
    facts = {name: context.shared.get(name, {}) for name in compared}
    members = {name: {k: v for k, v in of.items() if k not in left_out} for name, of in facts.items()}
    found = [*shared_by(slow, members), *(shared for shared in shared_by({*slow, *alike}, members) if shared.whole)]
    return min(found, key=lambda shared: not shared.whole, default=None)


def slow_group(spec: CheckSpec, context: JudgeContext, shared: Shared, what: str, **details: Any) -> Outcome:
    """Return the one outcome about what slow hosts share. Its further subjects are these hosts.

    Args:
        spec: the check; it declares CAUSE.
        context: the context of the judgement.
        shared: what explains them.
        what: what is slow, and how slow.
        details: further fields of the outcome.
    """
    is_rack = shared.kind == "rack"
    subject = Subject(SubjectKind.RACK, shared.value) if is_rack else Subject(SubjectKind.CLUSTER, context.site.name)
    hint = _HINTS.get(shared.kind, _SOFTWARE.format(kind=shared.kind))
    return Answer(spec, context, subject).failed(
        CAUSE, f"{shared.text}: {what}", hint, **{**details, "more_subjects": nodes(shared.slow)}
    )
