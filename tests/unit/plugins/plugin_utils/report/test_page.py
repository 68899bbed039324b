# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: everything that somebody needs who was not there, nothing from outside, nothing that runs."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from page_tree import Element, parse
from report_runs import MadeRun, failed, held, passed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Evidence,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.html import render_page
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.markdown import render_markdown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import (
    Blocking,
    GateVerdict,
    NotDeclared,
    TakenOver,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

QUARANTINE = Quarantine(node="gpu04", reason="GPU 3 awaits RMA", ticket="DC-1182", who="J. Doe")
WAIVER = Waiver(check="gpu-ecc", subject="gpu02", reason="spare ordered", who="A. Engineer", until="2026-12-31")
UNUSED = replace(WAIVER, check="clock-sync", subject="*")
EXPIRED = replace(WAIVER, check="nvlink", subject="gpu01", until="2026-01-01", who="C. Past")
ACCEPTANCE = Acceptance(check="nccl-pair-bw", subject="gpu03", reason="long cable", who="B. Lead", until="2027-03-31")
EVIL = '<script>alert("x")</script>&amp;<b>'


def page_of(made: MadeRun, run_dir: Path) -> Element:
    return parse(text_of(made, run_dir))


def text_of(made: MadeRun, run_dir: Path) -> str:
    return render_page(load_facts(run_dir, made.write(run_dir)))


def decided_run(**more: object) -> MadeRun:
    made = MadeRun(
        nodes=4, waivers=(WAIVER, UNUSED, EXPIRED), acceptances=(ACCEPTANCE,), quarantine=(QUARANTINE,), **more
    ).healthy()  # type: ignore[arg-type]
    made.outcomes["nodes"] = (
        *made.outcomes["nodes"],
        failed("nodes", "gpu-ecc", node_subject("gpu02"), "ecc-uncorrectable"),
    )
    made.outcomes["fabric_validation"] = (
        *made.outcomes["fabric_validation"],
        held("fabric_validation", "nccl-pair-bw", node_subject("gpu03"), "pair-bandwidth-marginal"),
    )
    return made


def test_the_verdict_stands_first(tmp_path: Path) -> None:
    page = page_of(decided_run(), tmp_path)
    text = "accepted 3 of 4 nodes, 1 quarantined, 1 result waived, 1 marginal result let through by 1 person"
    assert page.one("div", cls="verdict").text == text
    assert "3 in scope of 4" in page.one("header").text
    assert page.all("div", cls="banner") == page.all("div", cls="watermark") == []


def test_the_gates_come_before_the_notes_and_what_to_do_before_both(tmp_path: Path) -> None:
    """On a phone eight notes are one and a half screens."""
    made = decided_run()
    made.outcomes["fabric"] = (
        failed("fabric", "links", node_subject("gpu01"), "cable-slow", hint="replace the cable: `ibstat mlx5_4`"),
        failed("fabric", "links", node_subject("gpu02"), "cable-slow"),
    )
    record = replace(made.write(tmp_path), notes=("rehearsal: hosts: 4 simulated",))
    facts = load_facts(tmp_path, record)
    page = parse(render_page(facts))
    notice = page.one("header").one("div", cls="notice").text
    assert "cable-slow on gpu01, gpu02: replace the cable: ibstat mlx5_4" in notice
    titles = [title.text for title in page.all("h2")]
    assert titles.index("Gates") < titles.index("Failed and held") < titles.index("Notes")
    assert "rehearsal: hosts" not in page.one("header").text
    markdown = render_markdown(facts)
    assert markdown.index("| 1 | facility |") < markdown.index("cable-slow on gpu01") < markdown.index("**Notes:**")


def test_what_a_person_decided_is_nothing_to_do(tmp_path: Path) -> None:
    assert page_of(decided_run(), tmp_path).one("header").all("div", cls="notice") == []


def test_a_rehearsal_says_so_in_title_banner_verdict_watermark_and_on_every_printed_page(tmp_path: Path) -> None:
    text = text_of(decided_run(rehearsal=True), tmp_path)
    page = parse(text)
    assert page.one("head").one("title").text.startswith("REHEARSAL")
    assert "can never be, an acceptance" in page.one("div", cls="banner").text
    assert page.one("div", cls="watermark").text == "REHEARSAL"
    assert page.one("div", cls="verdict").text.startswith("REHEARSAL") and "accepted " not in page.one("header").text
    assert '@top-center { content: "REHEARSAL' in text
    assert "REHEARSAL" not in text_of(decided_run(), tmp_path / "real")


def test_the_gates_have_times_and_a_timeline(tmp_path: Path) -> None:
    rows = page_of(decided_run(), tmp_path).section("gates").one("tbody").all("tr")
    assert [row.all("td")[1].text.split()[-1] for row in rows] == [gate.id for gate in GATES]
    second = [cell.text for cell in rows[1].all("td")]
    assert second[2] == "passed" and second[4:7] == ["10:02:00", "10:03:30", "1 min 30 s"]
    bars = [row.all("rect")[1].attributes for row in rows]
    places = [float(found["x"]) for found in bars]
    assert places == sorted(places) and places[0] == 0.0 and 0 < float(bars[0]["width"]) < 100


def test_a_gate_that_did_not_run_says_why(tmp_path: Path) -> None:
    made = MadeRun(nodes=2, scope=("facility", "fabric", "nodes")).healthy()
    made.outcomes = {"facility": made.outcomes["facility"]}
    text = page_of(made, tmp_path).section("gates").text
    assert "not reached" in text and "outside the scope of this run" in text


def test_the_message_of_a_gate_is_shown_with_its_key_figure(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    record = made.write(tmp_path)
    message = "taken over from run r-0 of Monday"
    taken = replace(record.gate("nodes"), key_figure="16 GPUs found healthy", message=message)
    text = render_page(load_facts(tmp_path, record.with_gate(taken)))
    assert "16 GPUs found healthy" in text and "taken over from run r-0 of Monday" in text


def test_gates_that_were_taken_over_are_told_and_marked(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    line = "taken over from run r-0 of 2026-11-01: 2 results"
    skipped = [
        passed("nodes", "gpu-census", node_subject(name), status=Status.SKIPPED, rating=Rating.UNKNOWN)
        for name in made.names
    ]
    made.outcomes["nodes"] = tuple(skipped)
    record = made.write(tmp_path)
    over = TakenOver(runs=("r-0",), oldest="2026-11-01T10:00:00Z", newest="2026-11-01T10:00:00Z", results=2)
    verdict = GateVerdict(gate="nodes", status=Status.SKIPPED, message=line, key_figure=line, taken_over=over)
    record = replace(record.with_gate(verdict), from_gate="gpu_stack", resumed=(f"nodes {line}",))
    page = parse(render_page(load_facts(tmp_path, record)))
    gates = page.section("gates")
    assert gates.one("tbody").text.count(line) == 1 and f"nodes {line}" in gates.one("ul").text
    letters = [row.all("td")[0].text for row in page.section("matrix").one("tbody").all("tr")]
    assert letters == ["T", "T"] and "taken over" in page.section("matrix").one("ul").text
    assert page.section("held").all("article") == []
    assert f"nodes {line}" in render_markdown(load_facts(tmp_path, record))


def test_every_case_has_cause_numbers_arithmetic_hint_and_evidence(tmp_path: Path) -> None:
    made = MadeRun(nodes=4).healthy()
    bad = [failed("nodes", "gpu-census", node_subject(name), "gpu-missing") for name in made.names]
    odd = held(
        "nodes", "dcgm-diag", node_subject("gpu01"), "dcgm-diag-timeout", Rating.UNKNOWN, hint="run `dcgmi diag`"
    )
    made.outcomes = {"nodes": (*bad, odd)}
    cases = page_of(made, tmp_path).section("held")
    assert [h.text for h in cases.all("h3")] == ["failed gpu-missing 4 results", "other dcgm-diag-timeout"]
    articles = cases.all("article")
    assert [a.one("h4").text for a in articles] == [*made.names, "gpu01"]
    for outcome, article in zip([*bad, odd], articles, strict=True):
        assert outcome.summary in article.text and outcome.hint.replace("`", "") in article.text
        assert outcome.expected[0].arithmetic in article.text and "busbw >= 408 GB/s" in article.text
        assert "busbw = 199.2 GB/s" in article.text and "8589934592 199.2" in article.text
        assert article.one("a").attributes["href"] == outcome.evidence[0].path
    assert articles[-1].one("code").text == "dcgmi diag"


def test_what_waits_for_another_check_is_short(tmp_path: Path) -> None:
    made = MadeRun(nodes=3).healthy()
    waits = [
        held(
            "nodes",
            "nvlink",
            node_subject(name),
            "blocked-by-gpu-census",
            Rating.UNKNOWN,
            blocked_by="gpu-census",
            hint="see check gpu-census",
        )
        for name in made.names
    ]
    made.outcomes = {"nodes": tuple(waits)}
    cases = page_of(made, tmp_path).section("held")
    assert cases.all("article") == []
    assert [row.all("td")[0].text for row in cases.one("tbody").all("tr")] == list(made.names)
    assert "see check gpu-census" in cases.text


def test_many_alike_are_listed_and_none_is_forgotten(tmp_path: Path) -> None:
    made = MadeRun(nodes=40).healthy()
    made.outcomes = {"nodes": tuple(failed("nodes", "nvlink", node_subject(n), "nvlink-inactive") for n in made.names)}
    cases = page_of(made, tmp_path).section("held")
    whole = [a.one("h4").text for a in cases.all("article")]
    short = [row.all("td")[0].text for row in cases.one("table", cls="stack").one("tbody").all("tr")]
    assert whole + short == list(made.names) and len(whole) == 8
    assert "32 more with the same cause" in cases.text and "40 results" in cases.text


def test_a_reason_without_a_result_is_a_case_too(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    made.outcomes = {"nodes": (passed("nodes", "gpu-census", node_subject("gpu01")),)}
    record = made.write(tmp_path)
    missing = Blocking(check="nvlink", subject="gpu02", status=Status.OTHER, cause="no-outcome", summary="no result")
    verdict = replace(record.gate("nodes"), status=Status.OTHER, message="not passed", blocking=(missing,))
    cases = parse(render_page(load_facts(tmp_path, record.with_gate(verdict)))).section("held")
    assert cases.one("article").one("h4").text == "gpu02" and "no-outcome" in cases.text


def test_decisions_are_listed_with_what_they_did(tmp_path: Path) -> None:
    made = decided_run()
    made.outcomes["nodes"] = (
        *made.outcomes["nodes"],
        failed("nodes", "nvlink", node_subject("gpu01"), "nvlink-inactive"),
    )
    page = page_of(made, tmp_path)
    aside, decided = page.section("decisions").all("tbody")
    assert [c.text for c in aside.one("tr").all("td")] == ["gpu04", "GPU 3 awaits RMA", "DC-1182", "J. Doe"]
    rows = [[cell.text for cell in row.all("td")] for row in decided.all("tr")]
    assert [row[-1] for row in rows] == [
        "waived 1: ecc-uncorrectable on gpu02",
        "nothing to cover in this run",
        "expired, so it covers nothing: gpu01",
        "accepted 1: pair-bandwidth-marginal on gpu03",
    ]
    assert rows[0][:6] == ["waiver", "gpu-ecc", "gpu02", "spare ordered", "A. Engineer", "2026-12-31"]
    assert "waived by A. Engineer until 2026-12-31: spare ordered" in page.section("held").text


def test_what_was_not_declared_and_what_is_out_of_scope(tmp_path: Path) -> None:
    why = "needs facility_record: the provider owns the room (and its PDUs)"
    missing = NotDeclared(id="facility-power", title="Power", reason=why)
    scope = tuple(gate.id for gate in GATES if gate.id != "telemetry")
    made = MadeRun(nodes=1, scope=scope, not_declared={"facility": (missing,)}).healthy()
    del made.outcomes["telemetry"], made.outcomes["fabric_validation"]
    section = page_of(made, tmp_path).section("left-out")
    rows = [[cell.text for cell in row.all("td")] for row in section.one("tbody").all("tr")]
    assert rows[0] == ["1. Facility record and budgets", "facility-power", why]
    # A gate that was not reached tells it, too: one host has no pairs.
    gate_six = next(row for row in rows if row[0].startswith("6."))
    assert "nccl-pair-bw" in gate_six[1] and "multi_node" in gate_six[2]
    assert "Outside the scope of this run, so nothing is said about them: telemetry." in section.text


def test_versions_and_digests_stand_there_and_settings_do_not(tmp_path: Path) -> None:
    made = MadeRun(nodes=2, settings={"fabric_validation": {"env": {"NCCL_X": "s3cr3t-value"}}}).healthy()
    (tmp_path / "recipe.json").write_text(
        '{"criteria": {"service": "generic"}, "deploymentOrder": ["gpu-operator"], "constraints": [1, 2],'
        ' "componentRefs": [{"name": "gpu-operator", "version": "v26.3.3"}]}'
    )
    text = text_of(made, tmp_path)
    made_with = parse(text).section("made-with").text
    assert "gpufleet.bringup 0.1.0" in made_with and "gpu-operator v26.3.3" in made_with
    assert "service=generic" in made_with and "fabric_validation (env)" in made_with
    assert len(re.findall(r"\b[0-9a-f]{64}\b", made_with)) == 3
    assert "s3cr3t-value" not in text


def test_nothing_comes_from_outside_and_nothing_runs(tmp_path: Path) -> None:
    text = text_of(decided_run(rehearsal=True), tmp_path)
    page = parse(text)
    used = {element.tag for element in page.all()}
    assert not used & {"script", "link", "img", "iframe", "object", "embed", "image", "use", "foreignobject", "base"}
    attributes = [(name, value) for element in page.all() for name, value in element.attributes.items()]
    assert [
        name for name, _value in attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")
    ] == []
    links = {value for name, value in attributes if name == "href"}
    assert links and all(re.fullmatch(r"(ctrf|evidence)/[\w./-]+", link) for link in links)
    addresses = set(re.findall(r"\w+://[^\s\"'<)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text and "url(" not in text and "default-src 'none'" in text


def test_what_others_wrote_is_text(tmp_path: Path) -> None:
    subject = Subject(SubjectKind.NODE, f"gpu01{EVIL}", f"gpu01{EVIL}")
    bad = failed(
        "nodes",
        "gpu-census",
        subject,
        "gpu-missing",
        summary=f"found {EVIL}",
        hint=f"do `{EVIL}`",
        evidence=(
            Evidence(f"cmd {EVIL}", EVIL, f"out {EVIL} password=hunter2", "javascript:alert(1)"),
            Evidence("cmd", "", "", "../../etc/passwd"),
            Evidence("cmd", "", "", "/etc/shadow"),
            Evidence("cmd", "", "", 'evidence/"><script>.log'),
        ),
    )
    made = MadeRun(
        nodes=2, name=f"site {EVIL}", waivers=(replace(WAIVER, who=EVIL, reason=EVIL, subject="*"),)
    ).healthy()
    made.quarantine = (replace(QUARANTINE, node="gpu02", reason=EVIL, ticket=EVIL, who=EVIL),)
    made.outcomes["nodes"] = (bad,)
    curve = replace(made.outcomes["inference_acceptance"][0].series[0], name=EVIL, figure=f"TTFT {EVIL}")
    made.outcomes["inference_acceptance"] = (replace(made.outcomes["inference_acceptance"][0], series=(curve,)),)
    text = text_of(made, tmp_path)
    page = parse(text)
    assert page.all("script") == [] and page.all("b") == page.section("matrix").all("b")
    assert f"found {EVIL}" in page.section("held").text and EVIL in page.section("decisions").text
    assert EVIL in page.section("figures").text and EVIL in page.one("h1").text
    assert "hunter2" not in text
    links = [a.attributes["href"] for a in page.section("held").all("a")]
    assert links == ["evidence/%22%3E%3Cscript%3E.log"]


def test_it_is_made_for_print_and_for_readers_of_every_kind(tmp_path: Path) -> None:
    text = text_of(decided_run(), tmp_path)
    page = parse(text)
    assert "@media print" in text and "size: A4" in text and "break-inside: avoid" in text
    assert "table-header-group" in text
    assert page.one("html").attributes["lang"] == "en"
    for table in page.all("table"):
        assert table.all("thead"), "a table without a head"
    assert all("scope" in head.attributes for head in page.all("th"))
    drawings = [svg for svg in page.all("svg") if svg.attributes.get("role") == "img"]
    assert len(drawings) == 3
    for svg in drawings:
        names = svg.attributes["aria-labelledby"].split()
        titles = [svg.one("title", id_=names[0]), svg.one("desc", id_=names[1])]
        assert all(element.text for element in titles)
    ids = [e.attributes["id"] for e in page.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_without_pygal_the_numbers_are_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygal", None)
    figures = page_of(MadeRun(nodes=2).healthy(), tmp_path).section("figures")
    assert figures.all("svg") == [] and figures.all("details") == []
    assert "pygal was not installed" in figures.text
    assert "ceiling (ring)" in figures.all("table")[0].text and "8 GiB" in figures.all("table")[0].text


def test_a_run_from_the_first_second_to_a_broken_directory_has_a_page(tmp_path: Path) -> None:
    record = new_run("r", "site", "2026-11-21T10:00:00.000Z", tuple(gate.id for gate in GATES), rehearsal=False)
    page = parse(render_page(load_facts(tmp_path, record)))
    assert page.one("div", cls="verdict").text.startswith("not passed") and "No result yet" in page.section("held").text
    stopped = replace(record, problem="inventory: token=abcdef is wrong")
    page = parse(render_page(load_facts(tmp_path, stopped)))
    assert page.one("div", cls="verdict").text.startswith("not started") and "abcdef" not in page.one("body").text
    (tmp_path / "site.json").write_text("{")
    (tmp_path / "recipe.json").write_text("[]")
    (tmp_path / "ctrf").mkdir()
    (tmp_path / "ctrf/nodes.json").write_text("{}")
    page = parse(render_page(load_facts(tmp_path, record)))
    assert "nodes.json" in page.one("header").text and "site.json" in page.one("header").text


def test_what_a_later_judgement_cannot_confirm_stands_on_top(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    facts = load_facts(
        tmp_path, made.write(tmp_path), ("nodes: gpu-census on gpu01: recorded passed, computed failed",)
    )
    header = parse(render_page(facts)).one("header").text
    assert "1 difference to what was recorded, which is not confirmed" in header and "Do next" in header
