# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No edit brightens a saved run: random words, numbers, rows, files and links are changed, one at a time.

Others are drawn with each seed (seeds.py). `GPUFLEET_EDITS` makes another number (docs/development.md); the night
makes 2,000.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from archives import unpack
from digested import as_of_this_release
from edits import edit_run
from old_runs import without_unrecorded
from seeds import drawing
from thinned import HEALTHY, remembered

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    nothing_holds,
    run_summary,
)

ARCHIVES = Path(__file__).resolve().parents[5] / "data" / "saved_runs"
EDITS = int(os.environ.get("GPUFLEET_EDITS") or 4)
AT_NIGHT = 2000
RUNS = ["healthy", *sorted(path.name for path in ARCHIVES.glob("*.tar.xz"))]


@dataclass(frozen=True)
class Whole:
    """A run as it was saved, and what it said then."""

    path: Path
    record: RunRecord


@pytest.fixture(scope="module", params=RUNS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    directory = tmp_path_factory.mktemp("whole")
    if request.param == "healthy":
        unpack(HEALTHY, directory)
        as_of_this_release(directory)
    else:
        unpack(ARCHIVES / request.param, directory)
        without_unrecorded(directory)
    with remembered():
        record, differences = rejudge(Run(directory))
        assert differences == []
        yield Whole(directory, record)


def test_no_edit_brightens_a_run(whole: Whole, tmp_path: Path) -> None:
    edited(whole, EDITS, tmp_path)


@pytest.mark.long("2,000 edits of saved runs")
def test_none_of_two_thousand_edits_brightens_a_run(whole: Whole, tmp_path: Path) -> None:
    edited(whole, AT_NIGHT // len(RUNS), tmp_path)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("number", range(EDITS))
def test_no_edit_brightens_a_run_whose_digests_were_made_again(whole: Whole, tmp_path: Path, number: int) -> None:
    """Digests are no signature: what is judged again from edited evidence is no better than what the evidence says."""
    draw = drawing(f"edits of {whole.record.run_id} with digests {number}")
    run_dir = Path(shutil.copytree(whole.path, tmp_path / "run"))
    what = edit_run(run_dir, draw)
    try:
        run = Run(run_dir)
        run.save_record(run.record)
        record, _differences = rejudge(Run(run_dir))
    except BringupError:
        return
    assert_no_brighter(record, whole.record, what)


def edited(whole: Whole, count: int, tmp_path: Path) -> None:
    """Edit a run as often, each time anew, and judge it again."""
    draw = drawing(f"edits of {whole.record.run_id}")
    for number in range(count):
        run_dir = Path(shutil.copytree(whole.path, tmp_path / str(number)))
        what = edit_run(run_dir, draw)
        try:
            record, _differences = rejudge(Run(run_dir))
            assert_no_brighter(record, whole.record, what)
        except BringupError:
            # It is refused in a sentence; anything else is a crash, and the test fails.
            continue
        finally:
            shutil.rmtree(run_dir)


def assert_no_brighter(now: RunRecord, then: RunRecord, what: str) -> None:
    """An edited run holds only where the whole one did, about the same gates and nodes, and as the same rehearsal."""
    said = f"{what}: {run_summary(now)}"
    assert now.rehearsal or now.unconfirmed, said
    assert "accepted" not in run_summary(now), said
    if nothing_holds(now):
        assert nothing_holds(then) and now.rehearsal, said
        assert (now.scope, now.nodes, now.quarantined) == (then.scope, then.nodes, then.quarantined), said
