# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/settings.md is what its generator writes."""

from __future__ import annotations

import sys
from pathlib import Path

# The tools are no part of the collection: they are modules of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools import settings_docs


def test_the_page_of_settings_is_current() -> None:
    assert settings_docs.PAGE.read_text(encoding="utf-8") == settings_docs.page(), "run make settings-docs"
