# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a site: the example of the guide as it stands there, and whatever may be wrong with one."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from preflight_options import UNSTATED
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check import site_checks as loader
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.platform_state import PlatformState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.judge import judge_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import (
    AnyCheck,
    checks_of,
    observer_for,
    site_checks,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import declare_phase, names_of_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.inventory import checked_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.inventory_hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import observe_gate

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
