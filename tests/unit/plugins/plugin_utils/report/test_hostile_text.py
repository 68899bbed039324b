# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says commands neither a terminal nor a reader of a report."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_runs import MadeRun, failed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base import module_action
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Subject, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.html import render_page
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.junit import write_junit
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.markdown import render_markdown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.text import visible

HOSTILE = {
    "clears the screen": ("\x1b[2J\x1b[H passed", "\\x1b[2J\\x1b[H passed"),
    "sets the title": ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
    "a control of eight bits": ("\x9b2J", "\\x9b2J"),
    "goes back over its line": ("failed\rpassed\x08", "failed\\x0dpassed\\x08"),
    "turns the direction": ("gpu\u202edessap", "gpu\\u202edessap"),
    "NUL": ("a\0b", "a\\x00b"),
    "no character of XML": ("a\ufffeb\uffff", "a\\ufffeb\\uffff"),
    "half a pair": ("a\ud800b", "a\\ud800b"),
}
PLAIN = 'gpu01: 1 × GPU, 2 µs, <b> & "quoted"\n\tnext line, Größe, 中文'


@pytest.mark.parametrize("name", HOSTILE)
def test_what_commands_is_written_out(name: str) -> None:
    said, shown = HOSTILE[name]
    assert visible(said) == shown


def test_what_people_write_stays() -> None:
    assert visible(PLAIN) == PLAIN
    assert visible("a\r\nb") == "a\nb"


@pytest.mark.parametrize("said", [*(said for said, _shown in HOSTILE.values()), PLAIN])
def test_the_file_for_ci_is_xml_whatever_a_host_says(tmp_path: Path, said: str) -> None:
    outcome = failed("nodes", "gpu-census", Subject(SubjectKind.NODE, "gpu01"), "gpu-missing", summary=said)
    write_junit(tmp_path / "nodes.xml", "nodes", [outcome], rehearsal=False)
    root = ElementTree.parse(tmp_path / "nodes.xml").getroot()
    failure = root.find(".//failure")
    assert failure is not None
    assert " ".join(visible(said).split()) in " ".join((failure.get("message") or "").split())


def test_progress_lines_are_shown_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(module_action._DISPLAY, "display", shown.append)
    ModuleAction.emit(object(), "gpu01: \x1b[2Jdone")  # type: ignore[arg-type]
    assert shown == ["  gpu01: \\x1b[2Jdone"]


def test_page_and_summary_show_it_written_out(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    said = "gpu01: \x1b[2J\u202edessap\x00"
    outcome = failed("nodes", "gpu-ecc", Subject(SubjectKind.NODE, "gpu01"), "ecc-uncorrectable", summary=said)
    made.outcomes["nodes"] = (*made.outcomes["nodes"], outcome)
    facts = load_facts(tmp_path, made.write(tmp_path))
    for text in (render_page(facts), render_markdown(facts)):
        assert not {"\x1b", "\u202e", "\x00"} & set(text)
        assert "dessap" in text
