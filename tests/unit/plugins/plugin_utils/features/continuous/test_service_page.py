# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daily report as values: trends are drawn, a large site stays readable, what holds stands at the top."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import Word
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.report import (
    MOST_ROWS,
    Coverage,
    NodeLine,
    ServiceFacts,
    counted,
    points,
    render_service_markdown,
    render_service_metrics,
    render_service_page,
)


def line(node: str, word: Word = Word.HEALTHY, **changes: Any) -> NodeLine:
    known: dict[str, Any] = {"reasons": ("said",), "action": "", "ages": ("1.0 h",), "history": "·"}
    return NodeLine(node=node, word=word, **(known | changes))


def facts(lines: tuple[NodeLine, ...], **changes: Any) -> ServiceFacts:
    known: dict[str, Any] = {
        "site": "island", "rehearsal": False, "cycle_id": "c1", "written": "2026-11-23T10:00:00Z", "now_s": 1.0,
        "check_mode": False, "words": counted(lines),
        "coverage": (Coverage(test="dl", days=7, nodes=len(lines), fresh=1, never=2, oldest_s=9e4),),
        "lines": lines, "lemons": {30: (), 90: ()},
    }  # fmt: skip
    return ServiceFacts(**(known | changes))


def test_a_trend_is_a_line_from_the_first_sample_to_the_last() -> None:
    assert points((1.0, 0.9)) == "0.0,2.0 160.0,22.0"
    assert points((1.0,)) == "" and points(()) == ""
    # What hardly moves is drawn flat, and not as a fall.
    assert points((1.0, 0.999)).endswith("3.0")
    page = render_service_page(facts((line("n1", Word.DRIFTING, trend=(1.0, 0.97, 0.9), trend_name="dl: gemm"),)))
    assert "<polyline" in page and "90.0 % of its first sample" in page


def test_a_large_site_stays_readable() -> None:
    many = tuple(line(f"n{number:05d}", Word.UNKNOWN) for number in range(MOST_ROWS + 7))
    page, brief = render_service_page(facts(many)), render_service_markdown(facts(many))
    assert "And 7 more" in page and "And 2807 more" in page and len(page) < 3_000_000
    assert len(brief) < 65536 and "more, in the page" in brief


def test_what_holds_and_what_failed_stands_at_the_top() -> None:
    said = {"stopped": "the breaker holds: 5", "told": ("cohort is to blame",), "problems": ("webhook failed",)}
    told = facts((line("n1", Word.BAD),), rehearsal=True, **said)
    page, brief, metrics = (
        render(told) for render in (render_service_page, render_service_markdown, render_service_metrics)
    )
    for text in ("the breaker holds: 5", "cohort is to blame", "webhook failed", "REHEARSAL"):
        assert text in page and text in brief
        assert page.index(text) < page.index("Coverage")
    for name in ("breaker_holds", "cohort_findings", "policy_problems"):
        assert f'gpufleet_continuous_{name}{{site="island",rehearsal="true"}} 1' in metrics


def test_the_brief_report_says_of_each_node_why_and_what_was_done() -> None:
    noted = (line("n1", Word.BAD, reasons=("slow-gpu: gpu3", "more"), action="cordoned"), line("n2", Word.UNKNOWN))
    brief = render_service_markdown(facts((*noted, line("n3", Word.UNKNOWN, reasons=()))))
    assert "| n1 | bad | slow-gpu: gpu3 | cordoned |" in brief and "| n2 | unknown | said |  |" in brief
    assert "| n3 | unknown |  |  |" in brief
