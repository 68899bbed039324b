# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The random seed of the tests: drawn once per run and printed at its start; GPUFLEET_TEST_SEED states one.

GPUFLEET_TEST_CASES=all runs every case of the tests that are marked `drawn`, of which the seed draws some else.
GPUFLEET_TEST_LONG=1 runs the tests marked `long` in place of all others, as `make test-long` does.
"""

from __future__ import annotations

import os
import random

VARIABLE = "GPUFLEET_TEST_SEED"
CASES_VARIABLE = "GPUFLEET_TEST_CASES"
LONG_VARIABLE = "GPUFLEET_TEST_LONG"


def run_seed() -> int:
    """Return the seed of this run; workers of the same run get it through their environment."""
    return int(os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(10**6))))


def drawing(name: str) -> random.Random:
    """Return a source of random numbers for the test of that name; the same in every run with the same seed."""
    return random.Random(f"{run_seed()}/{name}")


def every_case() -> bool:
    """Tell whether every case is to be run, and none left out by the seed."""
    return os.environ.get(CASES_VARIABLE) == "all"


def long_ones() -> bool:
    """Tell whether the tests marked `long` are to be run, and only these."""
    return os.environ.get(LONG_VARIABLE) == "1"
