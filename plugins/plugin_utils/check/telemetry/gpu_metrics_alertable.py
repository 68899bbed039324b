# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the series that the site's alerts need exist, so that the alerts can fire.

dcgm-exporter leaves out a field that DCGM gives no value for: from 4.5.3 on the XID field was gone on hosts without
XIDs, while utilisation was there (NVIDIA/dcgm-exporter issues 646 and 700). An alert on a missing series never fires.
"""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...outcome.wording import count
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .fleet import Fleet
from .metrics_host import COMPLETE, seen_in, without_metrics
from .model import FleetMetrics
from .observe_metrics import OBSERVER

SPEC = CheckSpec(
    id="gpu-metrics-alertable",
    gate="telemetry",
    title="the series that alerts need",
    per=SubjectKind.CLUSTER,
    duration_s=10.0,
    causes=("metric-missing",),
)
_SHOWN = 5


def judge(observed: FleetMetrics, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome.

    A field that hosts lack is marginal: a person decides whether an alert of the site needs it there.
    """
    answer, fleet = Answer.about_cluster(SPEC, context), Fleet(observed)
    blocked = without_metrics(answer, fleet)
    if blocked is not None:
        return (blocked,)
    if observed.alert_fields is None:
        text = "this run did not record which series there are beside utilisation"
        return (answer.unknown("fields-unread", text, "run the gate again"),)
    unread = [
        name for name in observed.settings.metrics.alert_fields if name not in {e.field for e in observed.alert_fields}
    ]
    known = {host.name for host in observed.hosts}
    unseen = [host.name for host in context.site.in_scope if host.name not in known]
    if unread or unseen:
        text = f"not recorded: {', '.join(unread) or 'the series'} of {', '.join(unseen) or 'the hosts'}"
        return (answer.unknown("fields-unread", text, "run the gate again"),)
    # A host without any metrics is reported by check gpu-metrics-complete. This check judges the others.
    not_reporting = [host.name for host in observed.hosts if host.in_scope and fleet.is_silent(host)]
    speaking = [host.name for host in observed.hosts if host.in_scope and host.name not in not_reporting]
    having = {entry.field: frozenset(entry.hosts) for entry in observed.alert_fields}
    lacking = {field: [name for name in speaking if name not in hosts] for field, hosts in having.items()}
    fields = ", ".join(lacking) or "no series"
    details = {
        "measured": tuple(Measure(field, len(speaking) - len(names), "hosts") for field, names in lacking.items()),
        "expected": tuple(Expectation(field, "==", len(speaking), Basis.RULE, "hosts") for field in lacking),
        "evidence": seen_in(observed, fields),
    }
    missing = {field: names for field, names in lacking.items() if names}
    if not_reporting and not missing:
        because = f"there are no GPU metrics of {', '.join(not_reporting[:_SHOWN])}"
        return (answer.blocked(by=COMPLETE, because=because),)
    if not missing:
        return (answer.passed(f"{fields} at {count(len(speaking), 'host')}", **details),)
    text = "; ".join(f"no {field} of every GPU {_where(names, len(speaking))}" for field, names in missing.items())
    hint = (
        "an alert on it cannot fire: add the field to the exporter's counters, or use an exporter release that gives 0 "
        "where there was none; if no alert needs it, take it out of gpufleet_settings.telemetry.alert_fields"
    )
    named = tuple(node_subject(name) for name in dict.fromkeys(n for names in missing.values() for n in names))
    subjects = named if len(named) < len(speaking) else ()
    return (answer.marginal("metric-missing", text, hint, more_subjects=subjects, **details),)


def _where(names: list[str], hosts: int) -> str:
    if len(names) == hosts:
        return f"at any of {count(hosts, 'host')}"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"at {', '.join(names[:_SHOWN])}{more}"


CHECK = Check(SPEC, OBSERVER, judge)
