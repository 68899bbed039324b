# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges every world, one line each; ends with 1 if one is not healthy.

By default without a control plane: the gates that can be judged in this process. With `--rehearse`: `make rehearse`.
With `--faults N`: random faults in random worlds. With `--healthy N`: random worlds, other seeds and numbers of hosts.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from time import monotonic

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import (
    World,
    load_worlds,
    world_or_error,
)

from .world_bench.draws import drawn_faults, drawn_worlds, problems_of
from .world_bench.judge import held, judge_world, judged_gates

_MOST_LINES = 8
ROOT = Path(__file__).resolve().parent.parent


def _judged(world: World, seed: int = 0) -> tuple[list[str], str]:
    """Return what is wrong with a world, and what was judged; `seed` draws its model."""
    gates = judged_gates(world)
    if not gates:
        return [], f"not judged: {', '.join(world.gates)} need a control plane (REHEARSE=1)"
    with tempfile.TemporaryDirectory(prefix="world-") as directory:
        try:
            outcomes = judge_world(world, Path(directory), seed=seed)
        except BringupError as error:
            return [str(error)], ""
        except Exception:  # noqa: BLE001 - one world that cannot be drawn does not hide the others
            return traceback.format_exc().splitlines()[-5:], ""
    wrong = [
        f"{o.gate}/{o.check} {o.status.value} {o.cause} {', '.join(s.name for s in o.subjects)}: {o.summary}"
        for o in held(outcomes)
    ]
    if not wrong:
        wrong = [f"{o.check} waits for {o.blocked_by}, which is passed" for o in outcomes if o.blocked_by]
    return wrong, f"{len(outcomes)} results of {', '.join(gates)}"


def _rehearsed(name: str) -> tuple[list[str], str]:
    done = subprocess.run(["make", "rehearse", f"WORLD={name}"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [], "rehearsed"
    return [f"make rehearse ended with {done.returncode}", *done.stdout.splitlines()[-12:]], ""


def _with_faults(count: int, seed: int) -> int:
    """Judge random faults in random worlds, one line each; return the exit code."""
    print(f"seed {seed} (--seed {seed} draws the same)", flush=True)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="worlds-") as scratch:
        for number, drawn in enumerate(drawn_faults(random.Random(seed), count, Path(scratch) / "fit")):
            began = monotonic()
            try:
                wrong = problems_of(drawn, Path(scratch) / str(number))
            except Exception:  # noqa: BLE001 - one that cannot be drawn does not hide the others
                wrong = traceback.format_exc().splitlines()[-5:]
            bad += bool(wrong)
            print(f"{'WRONG' if wrong else 'found'} {drawn.id} ({monotonic() - began:.1f} s)", flush=True)
            for line in wrong:
                print(f"    {line}")
            shutil.rmtree(Path(scratch) / str(number), ignore_errors=True)
    print(f"{count - bad} of {count} faults were found, and nothing else")
    return 1 if bad else 0


def _healthy(count: int, seed: int) -> int:
    """Judge random healthy worlds, one line each; return the exit code."""
    print(f"seed {seed} (--seed {seed} draws the same)", flush=True)
    bad = 0
    for drawn in drawn_worlds(random.Random(seed), count):
        began = monotonic()
        wrong, said = _judged(drawn.grown, drawn.seed)
        bad += bool(wrong)
        print(f"{_word(wrong)} {drawn.id} ({monotonic() - began:.1f} s) {said}", flush=True)
        for line in wrong:
            print(f"    {line}")
    print(f"{count - bad} of {count} draws are healthy")
    return 1 if bad else 0


def _word(wrong: list[str]) -> str:
    return "NOT HEALTHY" if wrong else "healthy    "


def main() -> int:
    """Judge the worlds that are named, or all."""
    parser = argparse.ArgumentParser(prog="make worlds")
    parser.add_argument("names", nargs="*", metavar="id")
    parser.add_argument("--faults", type=int, default=0, metavar="N", help="put N random faults into random worlds")
    parser.add_argument("--healthy", type=int, default=0, metavar="N", help="draw N healthy worlds, seeds and sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the draws; printed, drawn if not given")
    parser.add_argument("--rehearse", action="store_true", help="run each world through the whole rehearsal")
    options = parser.parse_args()
    seed = options.seed or random.SystemRandom().randrange(1, 10**6)
    if options.faults:
        return _with_faults(options.faults, seed)
    if options.healthy:
        return _healthy(options.healthy, seed)
    try:
        worlds = load_worlds(DATA)
        chosen = {name: world_or_error(worlds, name) for name in options.names} or worlds
    except BringupError as error:
        print(error, file=sys.stderr)
        return 2
    bad = 0
    for name, world in chosen.items():
        began = monotonic()
        wrong, said = _rehearsed(name) if options.rehearse else _judged(world)
        bad += bool(wrong)
        print(f"{_word(wrong)} {name} ({monotonic() - began:.1f} s) {said}", flush=True)
        for line in wrong[:_MOST_LINES]:
            print(f"    {line}")
        if len(wrong) > _MOST_LINES:
            print(f"    and {len(wrong) - _MOST_LINES} more")
    print(f"{len(chosen) - bad} of {len(chosen)} worlds are healthy")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
