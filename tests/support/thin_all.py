# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes pieces out of the evidence of the tests' healthy run, and prints which passes outlive it; ends with 1 then.

By default one piece of every kind is tried, in some minutes; `--each N` tries N of a kind, `--only REGEX` the kinds
that it matches from their beginning. With `--excepted` those are tried that an exception allows: printed is what is
noticed all the same, for there the exception is wider than its reason. With `--numbers` numbers are made 0 and halved
instead. Printed are the numbers of pieces, kinds and exceptions, too.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from archives import unpack
from seeds import run_seed
from thinned import HEALTHY, UNNOTICED, Thinned, allowed_exceptions, exception_for, exceptions_for, remembered
from thinning import Piece, by_kind, pieces_of


def main() -> int:
    """Try the pieces and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kinds of pieces, a regular expression")
    parser.add_argument("--each", type=int, default=1, help="pieces of each kind")
    parser.add_argument("--excepted", action="store_true", help="try what exceptions allow")
    parser.add_argument(
        "--numbers", action="store_true", help="make numbers of documents 0 and halve them, and no more"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="thinning-") as directory, remembered():
        place = Path(directory)
        unpack(HEALTHY, place)
        pieces = pieces_of(place, numbers=options.numbers)
        if options.numbers:
            pieces = (piece for piece in pieces if piece.how in ("zero", "half"))
        kinds = {k: v for k, v in by_kind(pieces).items() if re.match(options.only, k)}
        drawn = _Drawn(place, kinds, options.each, excepted=options.excepted)
        run = Thinned(place)
        wrong = 0
        for piece in drawn.pieces():
            why = run.kept(piece)
            if (why != UNNOTICED) if options.excepted else why:
                wrong += 1
                print(f"{piece.kind} | {piece.text} | {why[:300]}", flush=True)
    total = sum(map(len, kinds.values()))
    what = "are noticed that an exception allows" if options.excepted else "passes outlived their evidence"
    print(
        f"{total} pieces of {len(kinds)} kinds; {drawn.allowed_pieces} of {drawn.allowed_kinds} kinds are allowed by "
        f"{len(drawn.used)} exceptions (of those that only hold for what is not read, by the pieces that were drawn); "
        f"{drawn.tried} tried (seed {run_seed()}), {wrong} {what}"
    )
    for entry, number in drawn.used.most_common():
        print(f"  {number} {entry}", file=sys.stderr)
    return 1 if wrong else 0


class _Drawn:
    """Pieces to be tried, and how many an exception allows."""

    def __init__(self, place: Path, kinds: dict[str, list[Piece]], each: int, *, excepted: bool) -> None:
        self._place, self._kinds, self._each, self._excepted = place, kinds, each, excepted
        self.allowed_pieces = self.allowed_kinds = self.tried = 0
        self.used: Counter[str] = Counter()

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces that are to be tried, and count all."""
        draw, allowed = random.Random(run_seed()), allowed_exceptions()
        for kind in sorted(self._kinds):
            pieces, entries = self._kinds[kind], exceptions_for(kind, allowed)
            chosen = draw.sample(pieces, min(self._each, len(pieces)))
            found = {piece: exception_for(self._place, piece, entries) for piece in chosen}
            of_kind = [entry for entry in found.values() if entry is not None]
            share = len(pieces) * len(of_kind) // len(chosen)
            self.allowed_pieces, self.allowed_kinds = self.allowed_pieces + share, self.allowed_kinds + bool(of_kind)
            for entry in of_kind:
                self.used[entry.kinds.pattern] += len(pieces) // len(chosen)
            for piece, entry in found.items():
                # What is not read needs no judge to tell that it is not.
                if (entry is not None and not entry.unread) if self._excepted else entry is None:
                    self.tried += 1
                    if self.tried % 500 == 0:
                        print(f"{self.tried} tried", file=sys.stderr, flush=True)
                    yield piece


if __name__ == "__main__":
    sys.exit(main())
