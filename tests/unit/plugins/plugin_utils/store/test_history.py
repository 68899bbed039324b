# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The history of runs: what is remembered, what never is, two writers at once, and files that cannot be used."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from nccl_fleet import Fleet
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import Recorded, Store, open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.model import Baseline, BaselineKey
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import decide
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

GATE_TABLES = ("run", "gate", "outcome", "measurement", "baseline", "ledger")
HOSTS = ("gpu01", "gpu02")
PARTS: dict[str, Any] = {"gpu_product": "p", "gpu_product_label": "p", "gpus": 8, "gpu_memory_mib": 81559}
HARDWARE = {
    name: Sku(name=f"dgx-{name}", title=name, accelerator="h100", sources=("test",), **PARTS)
    for name in ("h100", "h200")
}
SITE = make_site(tuple(Host(name=name, sku="h100", node_name=name) for name in HOSTS), name="island")
RATINGS = {Status.PASSED: Rating.GOOD, Status.FAILED: Rating.BAD, Status.OTHER: Rating.MARGINAL}
CLUSTER = Subject(SubjectKind.CLUSTER, "island")


def outcome(gate: str, check: str, *subjects: Subject, status: Status = Status.PASSED, **measured: Any) -> Outcome:
    bad = status is not Status.PASSED
    return Outcome(
        check=check,
        gate=gate,
        status=status,
        rating=RATINGS[status],
        subjects=subjects,
        summary="as seen",
        cause="seen-bad" if bad else "",
        hint="mend it" if bad else "",
        measured=tuple(Measure(name, value) for name, value in measured.items()),
        started="2026-11-21T10:00:00Z",
    )


def drivers(version: str = "580.95.05") -> list[Outcome]:
    return [outcome("nodes", "driver-uniform", node_subject(name), driver_version=version) for name in HOSTS]


GPU01 = node_subject("gpu01")


def figure(subject: Subject = GPU01, status: Status = Status.PASSED, **changed: Any) -> Outcome:
    facts = {"busbw": 480.5, "size": 8 << 30, "test": "all_reduce_perf", "nodes": 1, "algorithm": "NVLS"}
    facts |= {"nccl": "2.28.3"} | changed
    return outcome("fabric_validation", "nccl-intra-node-bw", subject, status=status, **facts)


def record(
    store: Store, gate: str, outcomes: list[Outcome], site: Site = SITE, run_id: str = "run-1", **more: Any
) -> Recorded:
    run = new_run(run_id, site.name, "2026-11-21T09:00:00Z", ("nodes", "fabric_validation"), rehearsal=site.rehearsal)
    expected: dict[str, tuple[str, ...]] = {}
    for entry in outcomes:
        if entry.subjects[0].node not in site.quarantined:
            expected[entry.check] = (*expected.get(entry.check, ()), entry.subjects[0].name)
    verdict = decide(gate, expected, outcomes, site, date(2026, 11, 21))
    return store.record_gate(run, verdict, outcomes, site, HARDWARE, **more)


def accepted(store: Store, *, rehearsal: bool) -> tuple[Baseline, ...]:
    """The oldest accepted figure of every key, check, site and subject."""
    key_parts = tuple(BaselineKey.__dataclass_fields__)
    others = ("subject", "busbw_gb_per_s", "run_id", "site", "accepted")
    with sqlite3.connect(store.path) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT * FROM baseline WHERE rehearsal = ? ORDER BY accepted, run_id", (rehearsal,)
        ).fetchall()
    connection.close()
    first: dict[Any, Baseline] = {}
    for row in rows:
        key = BaselineKey(**{name: row[name] for name in key_parts} | {"rehearsal": bool(row["rehearsal"])})
        entry = Baseline(key=key, check=row["check_id"], **{name: row[name] for name in others})
        first.setdefault((entry.site, entry.key, entry.check, entry.subject), entry)
    return tuple(first.values())


def counts(store: Store) -> dict[str, int]:
    connection = sqlite3.connect(store.path)
    try:
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in GATE_TABLES}
    finally:
        connection.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "deep" / "history.sqlite")


def test_figures_of_a_passed_gate_come_back_with_their_whole_key(store: Store) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure()])
    assert (said.outcomes, said.passes, said.baselines, said.notes) == (1, 1, 1, ())
    (entry,) = accepted(open_store(store.path), rehearsal=False)
    assert (entry.check, entry.subject, entry.busbw_gb_per_s, entry.run_id) == (
        "nccl-intra-node-bw",
        "gpu01",
        480.5,
        "run-1",
    )
    key = entry.key
    assert (key.sku, key.nodes, key.test, key.size) == ("dgx-h100", 1, "all_reduce_perf", 8 << 30)
    assert (key.algorithm, key.nccl_version, key.driver_version) == ("NVLS", "2.28.3", "580.95.05")
    assert {(p.check, p.subject) for p in store.last_passes("island", rehearsal=False)} == {
        ("driver-uniform", "gpu01"),
        ("driver-uniform", "gpu02"),
        ("nccl-intra-node-bw", "gpu01"),
    }


def test_the_figures_of_gate_fabric_validation_become_baselines(store: Store, repository: Path) -> None:
    fleet = Fleet(hosts=("gpu01", "gpu02", "gpu03", "gpu04"), hardware=load_hardware([repository / "recipes/hardware"]))
    site = fleet.site()
    versions = [outcome("nodes", "driver-uniform", node_subject(name), driver_version="580") for name in fleet.hosts]
    record(store, "nodes", versions, site)
    said = record(store, "fabric_validation", list(fleet.outcomes()), site)
    assert (said.baselines, said.notes) == (9, ())
    found = accepted(store, rehearsal=False)
    assert {(b.check, b.key.nodes) for b in found} == {
        ("nccl-intra-node-bw", 1),
        ("nccl-pair-bw", 2),
        ("nccl-all-nodes-bw", 4),
    }
    assert {(b.key.sku, b.key.test, b.key.size, b.key.driver_version) for b in found} == {
        ("dgx-h100", "all_reduce_perf", 8 << 30, "580")
    }


def test_recorded_again_changes_nothing(store: Store) -> None:
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    before = counts(store), accepted(store, rehearsal=False), store.last_passes("island", rehearsal=False)
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    assert (counts(store), accepted(store, rehearsal=False), store.last_passes("island", rehearsal=False)) == before


def test_a_gate_judged_bad_later_takes_its_passes_and_figures_back(store: Store) -> None:
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    record(store, "fabric_validation", [figure(status=Status.FAILED)])
    assert accepted(store, rehearsal=False) == ()
    assert {p.gate for p in store.last_passes("island", rehearsal=False)} == {"nodes"}


def test_the_oldest_figure_stays_the_baseline_and_the_newest_pass_counts(store: Store) -> None:
    for number, busbw in enumerate((480.0, 470.0, 460.0)):
        run_id, started = f"run-{number}", f"2026-11-2{number}T10:00:00Z"
        record(store, "nodes", drivers(), run_id=run_id)
        record(store, "fabric_validation", [replace(figure(busbw=busbw), started=started)], run_id=run_id)
    assert [b.busbw_gb_per_s for b in accepted(store, rehearsal=False)] == [480.0]
    newest = [p for p in store.last_passes("island", rehearsal=False) if p.gate == "fabric_validation"]
    assert [(p.run_id, p.passed) for p in newest] == [("run-2", "2026-11-22T10:00:00Z")]


def test_a_rehearsal_never_becomes_a_baseline_or_a_pass_of_the_real_site(store: Store) -> None:
    simulated = replace(SITE, rehearsal=True)
    record(store, "nodes", drivers(), simulated)
    record(store, "fabric_validation", [figure()], simulated)
    assert accepted(store, rehearsal=False) == () and store.last_passes("island", rehearsal=False) == ()
    (entry,) = accepted(store, rehearsal=True)
    assert entry.key.rehearsal
    record(store, "nodes", drivers(), run_id="run-2")
    record(store, "fabric_validation", [figure(busbw=470.0)], run_id="run-2")
    assert [b.busbw_gb_per_s for b in accepted(store, rehearsal=False)] == [470.0]
    assert [b.busbw_gb_per_s for b in accepted(store, rehearsal=True)] == [480.5]


DECISION = {"check": "nccl-intra-node-bw", "subject": "gpu01", "reason": "r", "who": "w", "until": "2026-12-31"}


@pytest.mark.parametrize(
    ("status", "decisions"),
    [
        (Status.FAILED, {"waivers": (Waiver(**DECISION),)}),
        (Status.OTHER, {"acceptances": (Acceptance(**DECISION),)}),
    ],
)
def test_what_a_person_let_through_is_no_pass_and_no_baseline(
    store: Store, status: Status, decisions: dict[str, Any]
) -> None:
    record(store, "nodes", drivers())
    good = figure(node_subject("gpu02"))
    said = record(store, "fabric_validation", [figure(status=status), good], replace(SITE, **decisions))
    # The gate passed, and so did the other host.
    assert (said.passes, said.baselines) == (1, 1)
    assert [b.subject for b in accepted(store, rehearsal=False)] == ["gpu02"]
    ledger = [p for p in store.last_passes("island", rehearsal=False) if p.gate == "fabric_validation"]
    assert [(p.subject, p.gate_passed) for p in ledger] == [("gpu02", True)]


def test_a_gate_that_is_not_passed_gives_no_baseline(store: Store) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure(), figure(node_subject("gpu02"), Status.FAILED)])
    assert (said.passes, said.baselines) == (1, 0)
    assert {(p.gate, p.subject, p.gate_passed) for p in store.last_passes("island", rehearsal=False)} == {
        ("nodes", "gpu01", True),
        ("nodes", "gpu02", True),
        ("fabric_validation", "gpu01", False),
    }


def test_a_bad_part_takes_the_pass_of_its_node(store: Store) -> None:
    gpu = Subject(SubjectKind.GPU, "gpu01/gpu3", "gpu01")
    bad = outcome("nodes", "gpu-ecc", gpu, status=Status.FAILED)
    record(store, "nodes", [outcome("nodes", "gpu-ecc", node_subject(name)) for name in HOSTS] + [bad])
    assert [p.subject for p in store.last_passes("island", rehearsal=False)] == ["gpu02"]


def test_a_quarantined_host_is_not_remembered_as_good(store: Store) -> None:
    site = replace(SITE, quarantine=(Quarantine(node="gpu01", reason="r", ticket="t", who="w"),))
    record(store, "nodes", drivers(), site)
    said = record(store, "fabric_validation", [figure(), figure(node_subject("gpu02"))], site)
    assert said.baselines == 1
    assert {p.subject for p in store.last_passes("island", rehearsal=False)} == {"gpu02"}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"algorithm": "unknown"}, "algorithm"),
        ({"nccl": ""}, "nccl"),
        ({"nodes": None}, "nodes"),
        ({"size": "8G"}, "size"),
        ({"busbw": "fast"}, "busbw"),
        ({"busbw": float("nan")}, "busbw"),
        ({"busbw": 0}, "busbw"),
    ],
)
def test_a_figure_without_its_whole_key_is_no_baseline(store: Store, changed: dict[str, Any], word: str) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure(**changed)])
    assert said.baselines == 0 and len(said.notes) == 1 and word in said.notes[0]


def test_without_one_driver_and_one_sku_there_is_no_baseline(store: Store) -> None:
    whole = figure(CLUSTER, nodes=2)
    assert "one driver version" in record(store, "fabric_validation", [whole]).notes[0]
    record(store, "nodes", [*drivers()[:1], *drivers("570.1")[1:]])
    assert "one driver version" in record(store, "fabric_validation", [whole]).notes[0]
    record(store, "nodes", drivers())
    mixed = replace(SITE, hosts=(SITE.hosts[0], replace(SITE.hosts[1], sku="h200")))
    assert "one SKU" in record(store, "fabric_validation", [whole], mixed).notes[0]
    assert record(store, "fabric_validation", [whole]).baselines == 1


def _prints(store: Store, gate: str) -> dict[str, str]:
    return {p.subject: p.fingerprint for p in store.last_passes("island", rehearsal=False) if p.gate == gate}


def test_another_nccl_makes_the_result_stale(store: Store) -> None:
    found = []
    for version in ("2.28.3", "2.28.9"):
        record(store, "fabric_validation", [figure(nccl=version)])
        found.append(_prints(store, "fabric_validation")["gpu01"])
    assert found[0] != found[1]


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_history as t
for number in range(8):
    store = t.open_store(Path(sys.argv[2]))
    t.record(store, "nodes", t.drivers(), run_id=f"{sys.argv[3]}-{number}")
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    words = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(path)]
    environment = {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    writers = [
        subprocess.Popen([*words, name], env=environment, stderr=subprocess.PIPE, text=True) for name in ("a", "b")
    ]
    said = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], said
    found = counts(open_store(path))
    assert (found["run"], found["gate"], found["outcome"], found["measurement"]) == (16, 16, 32, 32)


def test_two_that_make_the_same_file_at_once(tmp_path: Path) -> None:
    start = threading.Barrier(2)

    def make(path: Path) -> int:
        start.wait(timeout=60)
        return record(open_store(path), "nodes", drivers(), run_id=f"run-{threading.get_ident()}").outcomes

    with ThreadPoolExecutor(2) as pool:
        for number in range(6):
            path = tmp_path / f"{number}.sqlite"
            assert list(pool.map(make, (path, path))) == [2, 2]
            assert counts(open_store(path))["run"] == 2


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is not a database " * 400)


def _torn(path: Path) -> None:
    record(open_store(path), "nodes", drivers())
    path.write_bytes(path.read_bytes()[:8192])


def _overwritten(path: Path) -> None:
    record(open_store(path), "nodes", drivers())
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


@pytest.mark.parametrize("harm", [_garbage, _torn, _overwritten])
def test_a_damaged_file_is_an_error_with_the_fix(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = tmp_path / "history.sqlite"
    harm(path)
    with pytest.raises(BringupError, match="damaged") as error:
        record(open_store(path), "nodes", drivers())
    assert error.value.subject == str(path) and error.value.hint.endswith(f"mv '{path}' '{path}.damaged'")
    path.rename(f"{path}.damaged")
    assert record(open_store(path), "nodes", drivers()).outcomes == 2


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("UPDATE schema_version SET version = 99", "version 99"),
        ("UPDATE schema_version SET version = 0", "no schema version"),
        ("DELETE FROM schema_version", "no schema version"),
        ("INSERT INTO schema_version VALUES (1)", "no schema version"),
        ("DROP TABLE schema_version", "another program"),
        ("DROP TABLE ledger", "damaged"),
    ],
)
def test_a_file_of_an_unknown_schema_is_refused(tmp_path: Path, sql: str, word: str) -> None:
    path = tmp_path / "history.sqlite"
    open_store(path)
    with sqlite3.connect(path) as connection:
        connection.execute(sql)
    with pytest.raises(BringupError, match=word) as error:
        record(open_store(path), "nodes", drivers())
    assert error.value.hint


def test_a_place_that_cannot_be_a_file_is_an_error_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "history.sqlite"):
        with pytest.raises(BringupError, match="cannot be") as error:
            open_store(path)
        assert "gpufleet_store" in error.value.hint


def test_subjects_with_commas_between_them_are_read_from_older_files(store: Store) -> None:
    parts = (GPU01, Subject(SubjectKind.GPU, "gpu01/gpu2", "gpu01"), Subject(SubjectKind.LINK, "a, b", ""))
    bad = replace(outcome("nodes", "gpu-census", GPU01, status=Status.FAILED), subjects=parts)
    record(store, "nodes", [bad])
    found = store.non_passes("island", "", rehearsal=False)
    assert found[0].outcome is not None
    assert [subject.name for subject in found[0].outcome.subjects] == ["gpu01", "gpu01/gpu2", "a, b"]
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE outcome SET more_subjects = 'gpu01/gpu2,gpu01/gpu3'")
        connection.execute("UPDATE schema_version SET version = 2")
    connection.close()
    (old,) = open_store(store.path).non_passes("island", "", rehearsal=False)
    assert old.outcome is not None
    assert [subject.name for subject in old.outcome.subjects] == ["gpu01", "gpu01/gpu2", "gpu01/gpu3"]


def test_gates_of_older_files_get_their_places_by_the_clocks_of_then(store: Store) -> None:
    record(store, "nodes", [outcome("nodes", "gpu-census", GPU01)])
    with sqlite3.connect(store.path) as connection:
        connection.execute("ALTER TABLE gate DROP COLUMN begun")
        connection.execute("ALTER TABLE gate DROP COLUMN decided")
        connection.execute("UPDATE schema_version SET version = 3")
    connection.close()
    again = open_store(store.path)
    (old,) = again.last_passes("island", rehearsal=False)
    assert old.begun == 1
    bad = replace(outcome("nodes", "gpu-census", GPU01, status=Status.FAILED), cause="gpu-missing", hint="mend")
    record(again, "nodes", [bad], run_id="run-2")
    (new,) = again.non_passes("island", "", rehearsal=False)
    assert new.is_after(old)
