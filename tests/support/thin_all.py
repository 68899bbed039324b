# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes pieces out of the evidence of the tests' healthy run, and prints which passes outlive it; ends with 1 then.

By default one piece of every kind is tried, in some minutes; `--each N` tries N of a kind, `--only REGEX` the kinds
that it matches from their beginning. Printed are the numbers of pieces, kinds and exceptions, too.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from pathlib import Path

from archives import unpack
from seeds import run_seed
from thinned import HEALTHY, Thinned, allowed_exceptions, exception_for, remembered
from thinning import by_kind, pieces_of


def main() -> int:
    """Try the pieces and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kinds of pieces, a regular expression")
    parser.add_argument("--each", type=int, default=1, help="pieces of each kind")
    options = parser.parse_args()
    draw, allowed = random.Random(run_seed()), allowed_exceptions()
    with tempfile.TemporaryDirectory(prefix="thinning-") as directory, remembered():
        place = Path(directory)
        unpack(HEALTHY, place)
        kinds = {k: v for k, v in by_kind(pieces_of(place)).items() if re.match(options.only, k)}
        excepted = {kind: entry for kind in kinds if (entry := exception_for(kind, allowed)) is not None}
        asked = [
            piece
            for kind in sorted(kinds.keys() - excepted.keys())
            for piece in draw.sample(kinds[kind], min(options.each, len(kinds[kind])))
        ]
        run = Thinned(place)
        outlived = 0
        for number, piece in enumerate(asked, 1):
            if why := run.kept(piece):
                outlived += 1
                print(f"{piece.kind} | {piece.text} | {why[:300]}", flush=True)
            if number % 500 == 0:
                print(f"{number} of {len(asked)}, {outlived} outlived", file=sys.stderr, flush=True)
    pieces = sum(map(len, kinds.values()))
    free = sum(len(kinds[kind]) for kind in excepted)
    print(
        f"{pieces} pieces of {len(kinds)} kinds; {len(set(excepted.values()))} exceptions allow {free} of "
        f"{len(excepted)} kinds; {len(asked)} tried (seed {run_seed()}), {outlived} passes outlived their evidence"
    )
    return 1 if outlived else 0


if __name__ == "__main__":
    sys.exit(main())
