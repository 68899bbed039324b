# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every page of docs/ that is generated is what its generator writes, and each has its make target."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# The generators are no part of the collection: they are modules of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.pages import PAGES, ROOT, main


@pytest.mark.parametrize("target", PAGES)
def test_a_page_is_current(target: str) -> None:
    path, text = PAGES[target]
    assert (ROOT / path).read_text(encoding="utf-8") == text(), f"make {target}"
    assert f"\n{target}: setup ## Write {path}" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_a_page_that_there_is_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-doc"]) == 2
    assert "there is no check-doc; there are: catalog-docs, check-docs" in capsys.readouterr().err
