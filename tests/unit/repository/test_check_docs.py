# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/checks.md is what its generator writes."""

from __future__ import annotations

import sys
from pathlib import Path

# The tools are no part of the collection: they are modules of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from tools import check_docs


def test_the_page_of_checks_is_current() -> None:
    wanted = check_docs.page([check.spec for check in all_checks()])
    assert check_docs.PAGE.read_text(encoding="utf-8") == wanted, "run make check-docs"
