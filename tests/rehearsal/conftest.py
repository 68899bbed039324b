# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of simulated hosts share: a name by which a write that reached this machine is found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[str]:
    """A name that no file of this machine has; checked again afterwards."""
    name = f"gpufleet-marker-{os.getpid()}-{time.monotonic_ns()}"
    yield name
    for place in ("/etc", "/usr", "/var", "/tmp", "/root", "/opt", "/run", "/dev/shm", str(tmp_path)):
        assert not os.path.lexists(f"{place}/{name}"), f"a write reached {place} of this machine"
