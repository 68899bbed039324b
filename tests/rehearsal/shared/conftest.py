# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rehearsal for all files of this directory, which one worker runs (tests/support/distribution.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from shared_site import SharedSite
from shared_site import shared_site as made


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSite]:
    """The rehearsal, healthy; whatever a test changes, it takes back."""
    with made(tmp_path_factory.mktemp("shared")) as kept:
        yield kept
