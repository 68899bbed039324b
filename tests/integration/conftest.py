# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several tests of plugins in plays start: a real Slurm, one for each file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slurm import NoSlurmError, Slurm, running_slurm


@pytest.fixture(scope="module")
def server() -> Iterator[Slurm]:
    try:
        with running_slurm() as found:
            yield found
    except NoSlurmError as error:
        pytest.skip(f"no Slurm: {error}")
