# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The daily report of a cluster in service in Prometheus' text format. Pure.

No label has a value for each node: a site has thousands, and they come and go. Who it is stands in the page.
"""

from __future__ import annotations

from ..fleet.class_rules import Word
from ..fleet.standing import DAY_S
from .prometheus_text import Families
from .service_facts import ServiceFacts

PREFIX = "gpufleet_continuous"


def render_service_metrics(facts: ServiceFacts) -> str:
    """Return the file's text."""
    found = Families(PREFIX, (("site", facts.site), ("rehearsal", "true" if facts.rehearsal else "false")))
    found.add("last_cycle_timestamp_seconds", "When the last cycle was classified.", facts.now_s)
    for word in Word:
        found.add("nodes", "Nodes by what they are taken for.", facts.words[word], **{"class": word.value})
    found.add("out_of_service_nodes", "Nodes that we keep from work.", facts.out)
    found.add("breaker_holds", "Whether the breaker kept bad nodes in service.", bool(facts.stopped))
    found.add("cohort_findings", "Findings about whole cohorts or racks instead of single nodes.", len(facts.told))
    found.add("policy_problems", "What the policy asks for and could not be done.", len(facts.problems))
    for entry in facts.coverage:
        found.add("stale_after_seconds", "How old a result may be to count.", entry.days * DAY_S, test=entry.test)
        found.add("coverage_ratio", "Part of the nodes with a result young enough.", entry.share, test=entry.test)
        found.add("never_tested_nodes", "Nodes without any result of the test.", entry.never, test=entry.test)
        if entry.oldest_s is not None:
            text = "Age of the oldest of the newest results of all nodes."
            found.add("oldest_result_age_seconds", text, round(entry.oldest_s, 3), test=entry.test)
    for days, entries in facts.lemons.items():
        share = sum(lemon.share for lemon in entries[:3])
        text = "Part of all failures and exclusions of a window that the worst three nodes made."
        found.add("lemon_share_ratio", text, round(share, 6), window_days=str(days))
    return "\n".join(found.lines()) + "\n"
