# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rolls, cycles and burn-ins end with: a table and a verdict of their own, the same in every file, and no gate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in.model import Soak, SoakResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.burn_in.app import with_burn_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import (
    CycleLog,
    with_cycle,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import Journal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import (
    RollEvent,
    RollPlace,
    RollPlan,
    RollPolicy,
    Stage,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.roll import roll_work, with_roll
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, node_subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeClass, NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import Blocking, GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    new_run,
    run_summary,
    with_verb,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.saved import record_from_plain

WAY = (
    Stage.CORDONED, Stage.DRAINED, Stage.CHANGING, Stage.CHANGED, Stage.VERIFIED, Stage.RETURNED,
)  # fmt: skip
COMMAND = "ansible-playbook gpufleet.bringup.waves -i inventory/hosts.yml"


def begun(verb: str, **more: object) -> RunRecord:
    """A run as preflight leaves it: nodes in its scope, and pending."""
    record = with_verb(new_run("r1", "lab", "2026-11-22T10:00:00.000Z", ("nodes",), rehearsal=False), verb)
    return replace(record, command=COMMAND, nodes=3, **more)  # type: ignore[arg-type]


def rolled(directory: Path, held: str = "", last: Stage = Stage.RETURNED) -> Journal:
    """A roll over three nodes in two waves, of which that one is held."""
    places = tuple(RollPlace(node=f"gpu0{i}", wave=int(i > 1), rack="r1", why="next in its rack") for i in (1, 2, 3))
    journal = Journal.begin(directory / "driver-580.jsonl", "driver-580", RollPlan(places=places), RollPolicy())
    for place in places:
        for number, stage in enumerate(WAY[: WAY.index(last) + 1]):
            at = f"2026-11-22T10:0{number}:00.000Z"
            if stage is Stage.VERIFIED and place.node == held:
                journal.add(RollEvent(node=held, stage=Stage.HELD, reason="not verified: gpu-ecc", at=at))
                break
            journal.add(RollEvent(node=place.node, stage=stage, at=at))
    return journal


def written(directory: Path, record: RunRecord) -> dict[str, str]:
    """The files of that run, and what its user sees at the end."""
    run = Run(directory)
    run.save_record(record)
    names = ("report.md", "report.html", "report.json", "metrics.prom")
    files = {name: (directory / name).read_text(encoding="utf-8") for name in names if (directory / name).is_file()}
    return files | {"screen": "\n".join(closing_lines(record, directory))}


def run_passed(text: str) -> list[float]:
    families = text_string_to_metric_families(text)
    return [s.value for f in families for s in f.samples if s.name == "gpufleet_bringup_run_passed"]


def names_no_gate(files: dict[str, str]) -> bool:
    words = set(" ".join((files["screen"], files["report.md"])).replace("|", " ").split())
    # Gate nodes has the name of what a roll is over.
    return (
        not words & ({*GATE_IDS} - {"nodes"})
        and "Not declared here" not in files["report.html"]
        and 'data-label="began"' not in files["report.html"]
    )


def test_a_roll_in_which_every_node_came_back_is_passed_in_every_file(tmp_path: Path) -> None:
    record = with_roll(begun("roll"), rolled(tmp_path))
    files = written(tmp_path, record)
    lines = files["screen"].splitlines()
    assert lines[0].split() == ["node", "wave", "end", "took", "reason"]
    assert lines[2].split() == ["gpu01", "0", "returned", "5", "min", "00", "s", "-"]
    assert "verdict  roll driver-580: 3 of 3 nodes returned" in lines
    assert files["report.md"].startswith("## roll driver-580 of lab: passed\n")
    assert "<h1>Roll driver-580 of lab</h1>" in files["report.html"]
    assert "not passed" not in "".join(files.values()) and names_no_gate(files)
    assert run_passed(files["metrics.prom"]) == [1]
    stats = run_stats(Run(tmp_path))
    assert (stats["gpufleet_passed"], stats["gpufleet_exit_code"]) == (True, 0)
    assert stats["gpufleet_verdict"] == "roll driver-580: 3 of 3 nodes returned"
    assert stats["gpufleet_gates_by_status"] == {} and "again:" not in files["screen"]


def test_a_held_node_is_named_with_the_way_on_and_the_roll_is_not_passed(tmp_path: Path) -> None:
    files = written(tmp_path, with_roll(begun("roll"), rolled(tmp_path, held="gpu02")))
    verdict = "roll driver-580: not passed: 2 of 3 nodes returned; held: gpu02 (not verified: gpu-ecc)"
    assert f"verdict  {verdict}" in files["screen"].splitlines()
    assert f"again: {COMMAND} -e gpufleet_wave_again=gpu02" in files["screen"].splitlines()
    assert "do: repair gpu02, then begin these nodes again" in files["screen"].splitlines(), "no node is left to abort"
    assert "2 of 3 nodes returned" in files["report.md"]
    assert run_passed(files["metrics.prom"]) == [0] and "of lab: not passed" in files["report.md"]
    stats = run_stats(Run(tmp_path))
    assert (stats["gpufleet_passed"], stats["gpufleet_exit_code"]) == (False, 8)


def test_a_roll_that_was_interrupted_goes_on_by_the_same_command(tmp_path: Path) -> None:
    files = written(tmp_path, with_roll(begun("roll"), rolled(tmp_path, last=Stage.CHANGING)))
    assert "not passed: 0 of 3 nodes returned; under way: gpu01, gpu02, gpu03" in files["screen"]
    assert f"again: {COMMAND}" in files["screen"].splitlines()
    assert "do: go on with the roll; -e gpufleet_wave_abort=true ends it in a known state" in files["screen"]


def test_after_an_abort_the_way_on_is_without_it_and_asks_for_the_change(tmp_path: Path) -> None:
    aborted = replace(begun("roll"), command=f"{COMMAND} -e gpufleet_wave_abort=true")
    files = written(tmp_path, with_roll(aborted, rolled(tmp_path, held="gpu02")))
    lines = files["screen"].splitlines()
    assert f"again: {COMMAND} -e gpufleet_wave_again=gpu02 -e gpufleet_wave_change=<...>" in lines
    wanted = "do: repair gpu02, then begin these nodes again, with the gpufleet_wave_change of the roll"
    assert wanted in lines
    told = replace(aborted, command=f"{aborted.command} -e gpufleet_wave_change=none")
    assert wanted not in written(tmp_path, with_roll(told, rolled(tmp_path / "told", held="gpu02")))["screen"]


def test_a_node_that_is_begun_again_takes_the_time_of_that_try(tmp_path: Path) -> None:
    journal = rolled(tmp_path, held="gpu02")
    for minute, stage in enumerate((Stage.PENDING, *WAY[WAY.index(Stage.CORDONED) :])):
        journal.add(RollEvent(node="gpu02", stage=stage, at=f"2026-11-22T10:{30 + 2 * minute}:00.000Z"))
    (row,) = [row.cells for row in roll_work(journal).rows if row.cells[0] == "gpu02"]
    assert row[3] == f"{2 * (len(WAY) - WAY.index(Stage.CORDONED) - 1)} min 00 s"


def test_after_an_abort_the_way_on_has_what_the_roll_was_planned_with(tmp_path: Path) -> None:
    places = (RollPlace(node="gpu02", wave=1, rack="r1", why=""),)
    policy = RollPolicy(canary_nodes=("gpu02", "gpu03"), size="4", budget="2")
    journal = Journal.begin(tmp_path / "r.jsonl", "second", RollPlan(places=places), policy)
    journal.add(RollEvent(node="gpu02", stage=Stage.SPARED, reason="the roll was aborted before the change"))
    aborted = replace(begun("roll"), command=f"{COMMAND} -e gpufleet_wave_size=4 -e gpufleet_wave_abort=true")
    again = f"again: {COMMAND} -e gpufleet_wave_size=4 -e gpufleet_wave_again=gpu02"
    again += " -e gpufleet_wave_canary_nodes=gpu02,gpu03 -e gpufleet_wave_change=<...>"
    assert again in written(tmp_path, with_roll(aborted, journal))["screen"].splitlines()


def test_a_reason_that_stopped_the_roll_is_said_once(tmp_path: Path) -> None:
    record = with_roll(
        begun("roll"), rolled(tmp_path, held="gpu02"), "budget 1 is spent, last gpu02: not verified: gpu-ecc"
    )
    assert run_summary(record).count("gpu-ecc") == 1 and "held: gpu02; stopped: budget" in run_summary(record)


def test_a_run_in_check_mode_that_was_refused_says_how_to_start_it_again(tmp_path: Path) -> None:
    refused = begun("roll", check_mode=True, problem="host gpu01: gpufleet_sku is missing.")
    assert f"again: {COMMAND}" in written(tmp_path, refused)["screen"].splitlines()
    assert "again:" not in written(tmp_path, begun("roll", check_mode=True))["screen"]


def test_a_roll_of_many_nodes_shows_those_that_are_held(tmp_path: Path) -> None:
    places = tuple(RollPlace(node=f"gpu{i:03}", wave=1, rack="r1", why="") for i in range(200))
    journal = Journal.begin(tmp_path / "big.jsonl", "big", RollPlan(places=places), RollPolicy())
    for place in places:
        for stage in WAY[:4]:
            journal.add(RollEvent(node=place.node, stage=stage))
        for stage in (Stage.HELD,) if place.node == "gpu199" else WAY[4:]:
            journal.add(RollEvent(node=place.node, stage=stage))
    files = written(tmp_path, with_roll(begun("roll"), journal))
    rows = [line for line in files["screen"].splitlines() if line.startswith("gpu")]
    assert len(rows) == 40 and rows[-1].startswith("gpu199") and "and 160 more in the report" in files["screen"]
    assert files["report.html"].count(">returned<") == 199


@pytest.mark.parametrize("verb", ["roll", "continuous validation", "burn-in"])
def test_what_did_not_start_or_only_looked_has_no_table_of_gates(tmp_path: Path, verb: str) -> None:
    for number, record in enumerate((
        begun(verb, problem="host gpu01: gpufleet_sku is missing."), begun(verb, check_mode=True), begun(verb)
    )):  # fmt: skip
        directory = tmp_path / str(number)
        directory.mkdir()
        files = written(directory, record)
        assert names_no_gate(files), files["screen"]
        assert run_stats(Run(directory))["gpufleet_passed"] is False
    texts = [(tmp_path / str(i) / "report.md").read_text(encoding="utf-8") for i in range(3)]
    assert "not started: host gpu01" in texts[0] and texts[0].splitlines()[0].endswith(": not passed")
    assert texts[1].splitlines()[0].startswith("## CHECK MODE: ") and texts[1].splitlines()[0].endswith(": a preview")
    assert "it has not come to its end" in texts[2]


def log_of(*statuses: Status) -> CycleLog:
    results = {
        (f"gpu0{i}", "nccl_loop"): NodeResult(
            cycle_id="c", node=f"gpu0{i}", test="nccl_loop", started_s=1.0, duration_s=2.0, status=status,
            cause="" if status is Status.PASSED else "slow-adapter",
        )
        for i, status in enumerate(statuses, 1)
    }  # fmt: skip
    return CycleLog(results=results)


def cycled(record: RunRecord, number: int, *statuses: Status, word: str = "healthy") -> RunRecord:
    counts = {status.value: statuses.count(status) for status in Status}
    bad = any(status in (Status.FAILED, Status.OTHER) for status in statuses)
    status = Status.FAILED if bad else Status.PASSED if statuses else Status.SKIPPED
    verdict = GateVerdict(gate=f"cycle-00{number}", status=status, message="m", counts=counts, duration_s=95.0)
    classes = [NodeClass(cycle_id="c", node=f"gpu0{i}", word=word) for i in range(1, len(statuses) + 1)]
    return with_cycle(record.with_phase(verdict), verdict, log_of(*statuses), classes, "continuous.html")


def test_cycles_have_a_table_of_what_they_tested_and_name_the_page_to_read(tmp_path: Path) -> None:
    record = replace(begun("continuous validation"), scope=())
    record = cycled(cycled(record, 1, Status.PASSED, Status.PASSED), 2, Status.PASSED)
    files = written(tmp_path, record)
    lines = files["screen"].splitlines()
    assert lines[0].split() == ["cycle", "end", "tested", "took", "classes"]
    assert "nccl_loop on 2 nodes" in lines[2] and "1 min 35 s" in lines[2] and "2 healthy" in lines[2]
    assert "verdict  continuous validation: 2 cycles, 3 of 3 tests passed; 1 healthy" in lines
    assert f"report   {tmp_path / 'continuous.html'}" in lines and "continuous.html" in files["report.md"]
    assert run_passed(files["metrics.prom"]) == [1] and names_no_gate(files)
    assert run_stats(Run(tmp_path))["gpufleet_report"] == str(tmp_path / "continuous.html")
    assert "readiness" not in files["report.html"]


def test_a_cycle_that_found_a_fault_is_not_passed_though_a_later_one_is(tmp_path: Path) -> None:
    record = replace(begun("continuous validation"), scope=())
    record = cycled(cycled(record, 1, Status.FAILED, word="suspect"), 2, Status.PASSED)
    files = written(tmp_path, record)
    assert "continuous validation: not passed: 2 cycles, 1 of 2 tests passed, 1 failed" in files["screen"]
    assert "1 suspect (gpu01)" in files["screen"] and run_passed(files["metrics.prom"]) == [0]


@pytest.mark.parametrize("statuses", [(), (Status.PENDING,)])
def test_a_cycle_on_a_busy_cluster_is_neither_passed_nor_failed(tmp_path: Path, statuses: tuple[Status, ...]) -> None:
    files = written(tmp_path, cycled(replace(begun("continuous validation"), scope=()), 1, *statuses))
    stats = run_stats(Run(tmp_path))
    assert (stats["gpufleet_passed"], stats["gpufleet_exit_code"]) == (False, 0)
    # The alert of docs/report.md stays silent, and nothing says that anything was proven.
    assert run_passed(files["metrics.prom"]) == [] and "not passed" not in files["screen"]


def test_a_burn_in_has_a_line_for_each_host(tmp_path: Path) -> None:
    found = SoakResult(host="gpu01", test="nccl_loop", round=1, status=Status.PASSED, seconds=7200.0)
    done = Soak(hours=2, tests=("nccl_loop",), hosts=("gpu01", "gpu02"), rounds=1, results=(found,))
    entry = Blocking(
        check="burn-in-soak", subject="gpu02", status=Status.FAILED, cause="failed-under-load", summary="s",
        subjects=(node_subject("gpu02"),),
    )  # fmt: skip
    verdict = GateVerdict(gate="burn_in", status=Status.FAILED, message="m", blocking=(entry,))
    files = written(tmp_path, with_burn_in(begun("burn-in"), done, verdict, tmp_path / "a run"))
    lines = files["screen"].splitlines()
    assert lines[2].split()[:4] == ["gpu01", "passed", "2.00", "of"] and lines[3].split()[:2] == ["gpu02", "failed"]
    told = "burn-in: not passed: 1 of 2 hosts passed 2 h under load; gpu02 (burn-in-soak: failed-under-load)"
    assert f"verdict  {told}" in lines and "1 in 1 round" in lines[2]
    again = [line for line in lines if line.startswith("again: ")]
    # The repaired host alone, as the reason says.
    assert again[0].endswith("gpufleet_burn_in_nodes=gpu02") and "gpufleet_burn_in_run" not in again[0]
    short = replace(verdict, blocking=(replace(entry, status=Status.OTHER, cause="soak-too-short"),))
    screen = written(tmp_path, with_burn_in(begun("burn-in"), done, short, tmp_path / "a run"))["screen"]
    assert f"""-e "gpufleet_burn_in_run='{tmp_path}/a run'\"""" in screen
    passed = GateVerdict(gate="burn_in", status=Status.PASSED, message="m")
    # It went on after somebody had ended it.
    good = with_burn_in(begun("burn-in", interrupted="burn-in"), done, passed, tmp_path / "a run")
    assert "interrupted" not in run_summary(good)
    shown = with_burn_in(replace(begun("burn-in"), rehearsal=True), done, passed, tmp_path / "a run")
    assert [work.head[2] for work in (good.work, shown.work) if work] == ["under load", "under load (simulated)"]
    assert run_passed(written(tmp_path, good)["metrics.prom"]) == [1]


def test_the_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    record = with_roll(begun("roll"), rolled(tmp_path))
    Run(tmp_path).save_record(record)
    assert Run(tmp_path).record.work == record.work
    assert record_from_plain({**new_plain(), "work": None}, "run.json").work is None


def new_plain() -> dict[str, object]:
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain

    plain: dict[str, object] = to_plain(new_run("r", "lab", "2026-11-22T10:00:00Z", ("nodes",), rehearsal=False))
    plain.pop("work")
    return plain


def test_a_roll_that_was_stopped_in_the_middle_keeps_its_table(tmp_path: Path) -> None:
    stopped = with_roll(begun("roll", problem="Kubernetes API: no answer."), rolled(tmp_path, last=Stage.CHANGING))
    files = written(tmp_path, stopped)
    assert "verdict  roll driver-580: stopped: Kubernetes API: no answer." in files["screen"].splitlines()
    assert files["screen"].startswith("node ") and f"again: {COMMAND}" in files["screen"].splitlines()
