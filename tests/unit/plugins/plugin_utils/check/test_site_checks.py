# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a site: the example of the guide as it stands there, and whatever may be wrong with one."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from preflight_options import UNSTATED
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check import site_checks as loader
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_platform import PlatformState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.judge import judge_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import (
    AnyCheck,
    checks_of,
    observer_for,
    site_checks,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import declare_phase, names_of_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import (
    JudgeContext,
    ObserveContext,
    observer_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import checked_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run import observing
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import (
    Looking,
    looking_meanwhile,
    observe_gate,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import pause
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interrupt import Interrupted

ID = "checkpoint-storage"
HOST = {"gpufleet_sku": "dgx-h100", "gpufleet_rack": "r1"}
INVENTORY = Inventory(groups={"gpu_nodes": ["gpu01"]}, variables={"gpu01": HOST, "localhost": {}})


@pytest.fixture
def example(repository: Path, tmp_path: Path) -> Path:
    """The directory that the guide describes."""
    text = (repository / "docs" / "site-checks.md").read_text(encoding="utf-8")
    names = re.findall(r"`checks/(\S+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL)
    assert [name for name, _content in names] == ["gpu_stack/checkpoint_storage.py", "thresholds/gpu_stack.yaml"]
    for name, content in names:
        path = tmp_path / "checks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return tmp_path / "checks"


def problems(directory: Path) -> list[str]:
    """What preflight says of a directory, one line each."""
    with pytest.raises(ProblemsError) as error:
        checked_inventory(UNSTATED | {"check_dirs": [str(directory)]}, INVENTORY)
    assert all(problem.hint and "\n" not in f"{problem.subject}{problem.reason}" for problem in error.value.problems)
    return [f"{problem.subject} {problem.reason}" for problem in error.value.problems]


def own(directory: Path) -> AnyCheck:
    return next(check for check in checks_of("gpu_stack", site(directory)) if check.spec.id == ID)


def site(directory: Path) -> Any:
    return make_site(check_dirs=(str(directory),), capabilities=("kubernetes",))


def test_the_example_of_the_guide_judges_both_ways_with_its_settings(example: Path) -> None:
    checked = checked_inventory(UNSTATED | {"check_dirs": [str(example)]}, INVENTORY)
    assert checked.site.check_dirs == (str(example),)
    assert {name: entry.value for name, entry in checked.settings[ID].items()} == {"storage_class": "fast-rwx"}
    check, saved = own(example), {ID: {"storage_class": "fast-rwx"}}
    context = JudgeContext(gate="gpu_stack", site=checked.site, today=date(2026, 11, 23), saved_settings=saved)
    seen = PlatformState(storage_classes=("standard", "fast-rwx"))
    (good,), (bad,), (unseen,) = (
        check.judge(state, context)
        for state in (seen, replace(seen, storage_classes=("standard",)), replace(seen, storage_classes=None))
    )
    assert (good.status, bad.status, unseen.status) == (Status.PASSED, Status.FAILED, Status.OTHER)
    assert (bad.cause, bad.summary) == (
        "no-checkpoint-storage",
        "there is no StorageClass fast-rwx; there are standard",
    )
    stated = UNSTATED | {"check_dirs": [str(example)], "settings": {ID: {"storage_class": "slow"}}}
    assert checked_inventory(stated, INVENTORY).settings[ID]["storage_class"].value == "slow"


def test_it_is_declared_and_observed_like_ours_where_its_site_is_asked_and_nowhere_else(example: Path) -> None:
    check = own(example)
    assert observer_for(check, "gpu_stack") is check.observer and check.observer.key == "platform"
    declared = {entry.id: entry.subjects for entry in declare("gpu_stack", site(example)).checks}
    assert declared[ID] == (site(example).name,)
    assert ID not in {entry.id for entry in declare("gpu_stack", make_site()).checks}
    assert names_of_checks((str(example),))[ID] == (ID,) and ID not in names_of_checks()
    named = {"validation": {"conformance": {"checks": [ID]}}}
    found = declare_phase("conformance", site(example), named)
    assert [entry.id for part in found.parts for entry in part.checks] == [ID]
    elsewhere = declare_phase("conformance", make_site(), named)
    assert elsewhere.unknown == (ID,)


def test_files_of_a_directory_import_each_other(example: Path) -> None:
    (example / "gpu_stack" / "shared.py").write_text('WANTED = "fast-rwx"\n')
    path = example / "gpu_stack" / "checkpoint_storage.py"
    path.write_text(path.read_text().replace("\nSPEC = ", "\nfrom .shared import WANTED\n\nSPEC = "))
    assert own(example).spec.id == ID


def broken(example: Path, old: str, new: str) -> list[str]:
    path = example / "gpu_stack" / "checkpoint_storage.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return problems(example)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("import Outcome, SubjectKind", "import Outcom, SubjectKind", "cannot be imported: ImportError"),
        ("def judge(", "def judge(:", r"checkpoint_storage.py:\d+ cannot be imported: SyntaxError"),
        ("SPEC = CheckSpec(", "raise SystemExit('enough')\nSPEC = CheckSpec(", "SystemExit: enough"),
        ("SPEC = CheckSpec(", "raise OSError('at home\\nalone')\nSPEC = CheckSpec(", "OSError: at home alone"),
        ('id="checkpoint-storage"', 'id="checkpoints"', "has the id 'checkpoints', which is not its file's name"),
        ('gate="gpu_stack"', 'gate="nodes"', "lies in gpu_stack/, and its SPEC says gate 'nodes'"),
        ("CHECK = Check(SPEC, OBSERVER, judge)", "", "has a SPEC and no CHECK"),
        ("seen: PlatformState, context", "seen: str, context", "its judge takes <class 'str'>"),
        ("SPEC = CheckSpec(", "SPEC = 'x'\nOTHER = CheckSpec(", "its SPEC is str"),
        ("settings=CheckpointStorageSettings", "settings=int", "its settings <class 'int'> cannot be read"),
        ('phase="conformance"', 'phase="conformence"', "phase 'conformence', which gate gpu_stack has not"),
        ('phase="conformance"', 'phase="performance"', "phase 'performance', which gate gpu_stack has not"),
        ("per=SubjectKind.CLUSTER", 'per="cluster"', "its SPEC has per 'cluster', expected one of SubjectKind"),
        ("per=SubjectKind.CLUSTER", 'per=SubjectKind.CLUSTER, disturbs="pods"', "has disturbs 'pods', expected"),
        ('needs("kubernetes")', 'needs(("kubernetes",))', r"needs\(\('kubernetes',\),\), expected texts"),
        ('applies=(needs("kubernetes"),)', 'requires=("kubernetes",)', "unexpected keyword argument 'requires'"),
        ('causes=("no-checkpoint-storage",)', "causes=(1,)", r"causes \(1,\), expected a tuple of texts"),
        ('needs("kubernetes")', '"kueue"', r"applies \('kueue',\), expected a tuple of rules"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line_with_its_place(example: Path, old: str, new: str, told: str) -> None:
    (said,) = broken(example, old, new)
    assert said.startswith(str(example)) and re.search(told, said), said


def test_names_of_ours_and_places_of_no_gate_are_refused(example: Path) -> None:
    path = example / "gpu_stack" / "checkpoint_storage.py"
    text = path.read_text()
    path.unlink()
    (example / "gpu_stack" / "node_ready.py").write_text(text.replace(ID, "node-ready"))
    own_observer = 'OBSERVER = observer_of("platform", PlatformState, lambda _context: PlatformState())\n\nSPEC = '
    second = text.replace("\nSPEC = ", f"\n{own_observer}").replace(
        "import Check, CheckSpec", "import observer_of, Check, CheckSpec"
    )
    (example / "gpu_stack" / "second_storage.py").write_text(second.replace(ID, "second-storage"))
    (example / "conformance").mkdir()
    (example / "stray.py").write_text("")
    (example / "thresholds" / "gpu_stack.yaml").unlink()
    said = problems(example)
    for told in (
        "is named after no gate", "lies in the directory of no gate",
        "its id 'node-ready' is that of a check of this collection",
        "its observer 'platform' has the key of another one of this collection",
    ):  # fmt: skip
        assert sum(told in line for line in said) == 1, said
    assert len(said) == 4
    assert problems(example / "nowhere") == [f"gpufleet_check_dirs: {example / 'nowhere'} is no directory."]


def test_a_file_that_is_broken_after_preflight_is_an_error_and_no_missing_check(example: Path) -> None:
    (example / "gpu_stack" / "checkpoint_storage.py").write_text("import nothing_of_this_name\n")
    assert len(site_checks((str(example),)).problems) == 1
    with pytest.raises(ProblemsError, match="nothing_of_this_name"):
        checks_of("gpu_stack", site(example))


def test_a_file_that_does_not_end_is_a_problem_and_holds_nothing(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "_IMPORT_S", 0.2)
    (said,) = broken(example, "SPEC = CheckSpec(", "while True:\n    pass\nSPEC = CheckSpec(")
    assert "checkpoint_storage.py did not end within" in said


OWN_OBSERVER = """
import sys, time
def look(context):
    {look}
OBSERVER = observer_of("own-storage", PlatformState, look)

SPEC = """


@pytest.mark.parametrize("phase", ["deployment", "conformance", ""])
def test_each_phase_that_a_validation_has_in_its_gate_may_be_stated(example: Path, phase: str) -> None:
    path = example / "gpu_stack" / "checkpoint_storage.py"
    path.write_text(path.read_text().replace('phase="conformance"', f'phase="{phase}"'))
    found = declare_phase(phase or "deployment", site(example), {})
    assert ID in {entry.id for part in found.parts for entry in part.checks}


def with_observer(example: Path, look: str, judge: str = "pass") -> AnyCheck:
    path = example / "gpu_stack" / "checkpoint_storage.py"
    text = path.read_text().replace("\nSPEC = ", OWN_OBSERVER.format(look=look), 1)
    text = text.replace("import Check, CheckSpec", "import observer_of, Check, CheckSpec")
    path.write_text(text.replace("    wanted = context", f"    {judge}\n    wanted = context", 1))
    return own(example)


@pytest.mark.parametrize(
    ("look", "told"),
    [
        ("time.sleep(60)", "did not end within"),
        ("sys.exit(3)", "crashed with SystemExit"),
        ("raise KeyError('x')", "crashed with KeyError"),
    ],
)
def test_one_that_hangs_or_ends_the_process_is_other(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str, told: str
) -> None:
    monkeypatch.setattr(loader, "LONGEST_S", 0.2)
    check = with_observer(example, look, "import sys; sys.exit(1)")
    found = site(example)
    context = ObserveContext(site=found, run_dir=tmp_path, today=date(2026, 11, 23), recipe={})
    declaration = replace(
        declare("gpu_stack", found), checks=tuple(c for c in declare("gpu_stack", found).checks if c.id == ID)
    )
    (seen,) = observe_gate(declaration, context, check_mode=False)
    assert seen.error is not None and told in seen.error["reason"], seen.error
    judging = JudgeContext(gate="gpu_stack", site=found, today=date(2026, 11, 23))
    (outcome,) = judge_gate(declaration, judging, tmp_path)
    assert outcome.status is Status.OTHER and check.spec.id == ID


def test_a_judge_that_ends_the_process_is_other(example: Path, tmp_path: Path) -> None:
    with_observer(example, "return PlatformState(storage_classes=())", "import sys; sys.exit(1)")
    found = site(example)
    context = ObserveContext(site=found, run_dir=tmp_path, today=date(2026, 11, 23), recipe={})
    whole = declare("gpu_stack", found)
    declaration = replace(whole, checks=tuple(entry for entry in whole.checks if entry.id == ID))
    observe_gate(declaration, context, check_mode=False)
    judging = JudgeContext(gate="gpu_stack", site=found, today=date(2026, 11, 23))
    (outcome,) = judge_gate(declaration, judging, tmp_path)
    assert (outcome.status, outcome.cause) == (Status.OTHER, "check-crashed") and "SystemExit" in outcome.summary


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        ("return None", "TypeError"),
        ("return ('passed',)", "TypeError"),
        ("return Answer.about_cluster(SPEC, context).passed('well')", "TypeError"),
        # Nothing of a generator runs before its outcomes are asked for.
        ("yield from ()\n    raise KeyError('late')", "KeyError"),
    ],
)
def test_a_judge_that_returns_no_outcomes_is_other(example: Path, tmp_path: Path, judge: str, told: str) -> None:
    (outcome,) = judged_by(example, tmp_path, judge)
    assert (outcome.status, outcome.cause) == (Status.OTHER, "check-crashed") and told in outcome.summary


@pytest.mark.parametrize("how", ["return [{}]", "yield {}\n    return"])
def test_outcomes_count_in_whatever_a_judge_gives_them(example: Path, tmp_path: Path, how: str) -> None:
    (outcome,) = judged_by(example, tmp_path, how.format("Answer.about_cluster(SPEC, context).passed('well')"))
    assert outcome.status is Status.PASSED


def judged_by(example: Path, tmp_path: Path, judge: str) -> tuple[Outcome, ...]:
    """What the gate says of the check with these lines at the begin of its judge, for an observer that saw."""
    with_observer(example, "return PlatformState(storage_classes=())", judge)
    found = site(example)
    context = ObserveContext(site=found, run_dir=tmp_path, today=date(2026, 11, 23), recipe={})
    whole = declare("gpu_stack", found)
    declaration = replace(whole, checks=tuple(entry for entry in whole.checks if entry.id == ID))
    observe_gate(declaration, context, check_mode=False)
    judging = JudgeContext(gate="gpu_stack", site=found, today=date(2026, 11, 23))
    return judge_gate(declaration, judging, tmp_path)


def test_an_observer_with_arguments_of_its_own_has_the_time_limit_of_a_sites(example: Path) -> None:
    path = example / "gpu_stack" / "checkpoint_storage.py"
    own_observer = OWN_OBSERVER.replace("def look(context):", "def look(_what, context):").replace(
        "PlatformState, look)", "PlatformState, functools.partial(functools.partial(look), 'x'))"
    )
    text = path.read_text().replace("\nSPEC = ", own_observer.format(look="time.sleep(60)"), 1)
    path.write_text(text.replace("import Check, CheckSpec", "import observer_of, Check, CheckSpec").replace(
        "import sys, time", "import functools, sys, time"))  # fmt: skip
    assert loader.site_limit_s(own(example).observer) == loader.LONGEST_S
    ours = next(check for check in checks_of("gpu_stack", make_site()) if check.spec.id == "node-ready")
    assert loader.site_limit_s(ours.observer) == 0.0


def test_an_observer_of_a_site_that_makes_pods_and_hears_nothing_holds_nothing(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of ours that was told to end is waited for until its pods are removed; one that sleeps on is left alone."""
    monkeypatch.setattr(observing, "_SITE_ENDS_S", 0.1)
    check = with_observer(example, "time.sleep(4)")
    context = ObserveContext(site=site(example), run_dir=tmp_path, today=date(2026, 11, 23), recipe={})
    entry = Looking(observer=check.observer, gate="gpu_stack", context=context, limit_s=0.1, pods=True)
    begun = monotonic()
    with looking_meanwhile([entry]) as seen:
        pass
    assert monotonic() - begun < 3.0
    assert seen[0].error is not None and "did not end within" in seen[0].error["reason"]

    ended: list[bool] = []

    def ours(_context: ObserveContext) -> PlatformState:
        with suppress(Interrupted):
            pause(60.0)
        sleep(0.3)
        ended.append(True)
        return PlatformState()

    with looking_meanwhile([replace(entry, observer=observer_of("own-storage", PlatformState, ours))]):
        pass
    assert ended == [True], "what makes pods has removed them"
