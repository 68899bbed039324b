# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page on paper, as Chromium prints it on A4: all of it, and nothing beyond the edge."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest
from report_runs import MadeRun, failed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import node_subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.html import render_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PAGE = re.compile(r'<page width="([\d.]+)" height="([\d.]+)">(.*?)</page>', re.DOTALL)
_WORD = re.compile(r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">(.*?)</word>')


@dataclass(frozen=True)
class Paper:
    """Words of a page, those of them that run upwards, and those that do not lie on it whole."""

    words: tuple[str, ...]
    upright: tuple[str, ...]
    outside: tuple[str, ...]


def printed(made: MadeRun, directory: Path) -> tuple[Paper, ...]:
    """Print the page of a run and return its sheets."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None or not shutil.which("pdftotext"):
        pytest.skip("NOT TESTED: nothing was printed; needs Chromium and pdftotext: apt install chromium poppler-utils")
    page, pdf = directory / "report.html", directory / "report.pdf"
    page.write_text(render_page(load_facts(directory, made.write(directory))), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory / 'profile'}",
               "--no-pdf-header-footer", f"--print-to-pdf={pdf}", page.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert pdf.is_file(), done.stderr
    read = ["pdftotext", "-bbox", str(pdf), "-"]
    text = subprocess.run(read, capture_output=True, text=True, timeout=120, check=True).stdout
    return tuple(_sheets(text))


def _sheets(text: str) -> Iterator[Paper]:
    for width, height, body in _PAGE.findall(text):
        assert (round(float(width)), round(float(height))) in {(595, 842), (596, 842)}, "no A4"
        words, upright, outside = [], [], []
        for left, top, right, bottom, word in _WORD.findall(body):
            words.append(unescape(word))
            upright += [words[-1]] if float(bottom) - float(top) > float(right) - float(left) else []
            inside = (
                min(float(left), float(top)) >= 0 and float(right) <= float(width) and float(bottom) <= float(height)
            )
            outside += [] if inside else [words[-1]]
        yield Paper(words=tuple(words), upright=tuple(upright), outside=tuple(outside))


def every_check(made: MadeRun) -> dict[str, str]:
    """Let every check of this release answer for every node, and return the gates of the checks."""
    gates = {
        spec.id: spec.gate for spec in (check.spec for check in all_checks()) if spec.gate in {g.id for g in GATES}
    }
    for gate in GATES:
        checks = [check for check, its in gates.items() if its == gate.id]
        made.outcomes[gate.id] = tuple(o for check in checks for o in made.every_node(gate.id, check))
    return gates


@pytest.mark.parametrize("prefix", ["", "ip-10-20-130-140.eu-central-1.compute.internal-"])
def test_every_check_of_every_gate_and_every_node_is_on_paper(tmp_path: Path, prefix: str) -> None:
    made = MadeRun(nodes=16, prefix=prefix)
    gates = every_check(made)
    gone = made.outcomes["nodes"][0]
    made.outcomes["nodes"] = (failed("nodes", gone.check, node_subject(made.names[2]), "gone"), *made.outcomes["nodes"])
    sheets = printed(made, tmp_path)
    assert [word for sheet in sheets for word in sheet.outside] == []
    assert sorted(set(gates) - {word for sheet in sheets for word in sheet.upright}) == []
    words = {word for sheet in sheets for word in sheet.words}
    assert {number for number in "12345678" if f"{number}." in words} == set("12345678")
    joined = "".join(word for sheet in sheets for word in sheet.words)
    assert [name for name in made.names if name not in joined] == []


def test_a_thousand_nodes_fit_on_few_sheets(tmp_path: Path) -> None:
    made = MadeRun(nodes=1000)
    gates = every_check(made)
    nodes = list(made.outcomes["nodes"])
    for place in range(7, 1000, 97):
        nodes[place] = failed("nodes", nodes[place].check, nodes[place].subjects[0], "gone")
    made.outcomes["nodes"] = tuple(nodes)
    sheets = printed(made, tmp_path)
    assert [word for sheet in sheets for word in sheet.outside] == []
    assert sorted(set(gates) - {word for sheet in sheets for word in sheet.upright}) == []
    assert len(sheets) < 40
