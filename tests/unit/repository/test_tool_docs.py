# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tools.md is what its generator writes."""

from __future__ import annotations

import sys
from pathlib import Path

# The tools are no part of the collection: they are modules of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from tools import tool_docs


def test_the_page_of_tools_is_current() -> None:
    assert tool_docs.PAGE.read_text(encoding="utf-8") == tool_docs.page(load_host_tools()), "run make tool-docs"
