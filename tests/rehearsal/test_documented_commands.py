# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command of the user's pages, as typed: from the installed tarball, in a directory that has a copy of the
example inventory, against one rehearsal that is kept. A page's commands run in its order; a new page's join by
themselves. The same for the examples of `ansible-doc` and of --help.

The owner of the room has signed the record of the example, as docs/facility.md says. hosts.yml is then the one that the
kept rehearsal wrote of the example: its hosts, simulated. Helm is on PATH, as the pages ask: that of the rehearsal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import Command, commands_of, example_of_help, user_pages, write_files
from example_lists import NOT_RUN, NOT_THIS_TASK
from examples import Example, examples, inventory_of, play_of
from installed import environment_of, installed_collection, with_rehearsal
from rehearsal_harness import ROOT
from signed_record import sign_record

# Programs that a page may call here; a block with another one says why it is not run.
RUN = ("ansible", "ansible-playbook", "gpufleet")
# What a person must never read. A command may end in a refusal of ours, where its page announces it.
CRASHES = ("Traceback", "is undefined", "this is a defect", "Unexpected failure", "can only concatenate", "ERROR! ")
# Longer ones are marked in their page.
LIMIT_S = 400
TIMED_OUT = 124
_PROGRAMS = "programs"
# Pages that take away what others need run last.
_REMOVES = ("bringup.remove", "bringup.rollback")
_TAKES_AWAY = (*_REMOVES, "rehearse_stop")
PAGES = sorted(
    (page for page in user_pages(ROOT) if any(not command.not_run for command in commands_of(ROOT, page))),
    key=lambda page: (
        any(word in (ROOT / page).read_text(encoding="utf-8") for word in _TAKES_AWAY),
        page != "README.md",
    ),
)
# What leaves a file that others read comes first.
_FIRST = ("snapshot_info", "recipe")
EXAMPLES = sorted(examples(ROOT), key=lambda example: example.name not in _FIRST)
EXAMPLES_RUN = [example for example in EXAMPLES if example.name not in NOT_RUN]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a user who rehearsed the copy of the example inventory and kept the rehearsal."""
    directory = with_rehearsal(installed_collection(tmp_path_factory.mktemp("documented")))
    shutil.copytree(ROOT / "inventories" / "example", directory / "inventory")
    write_files(ROOT, directory)
    sign_record(directory / "inventory" / "facility")
    kept = "ansible-playbook gpufleet.bringup.rehearse -i inventory/hosts.yml -e gpufleet_rehearsal_keep=true"
    try:
        done = _run(kept, directory)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
        (directory / "accepted").write_text(os.readlink(directory / ".run" / "latest"), encoding="utf-8")
        written = directory / ".run" / "rehearsal" / "inventory.yml"
        shutil.copy(written, directory / "inventory" / "hosts.yml")
        (directory / _PROGRAMS).mkdir()
        stated = yaml.safe_load(written.read_text(encoding="utf-8"))
        (directory / _PROGRAMS / "helm").symlink_to(stated["all"]["hosts"]["localhost"]["gpufleet_helm"])
        yield directory
    finally:
        _run("ansible-playbook gpufleet.bringup.rehearse_stop", directory)


def test_the_list_of_what_is_not_run_is_of_examples_that_exist_and_is_the_smaller_part() -> None:
    assert set(NOT_RUN) <= {example.name for example in EXAMPLES}
    named = {task.get("name") for example in EXAMPLES_RUN for task in example.tasks}
    assert set(NOT_THIS_TASK) <= named
    assert len(NOT_RUN) < len(EXAMPLES) / 2, (len(NOT_RUN), len(EXAMPLES))


@pytest.mark.long("each example is a play against a rehearsal that is kept")
@pytest.mark.parametrize("example", EXAMPLES_RUN, ids=str)
def test_an_example_of_ansible_doc_runs(work: Path, example: Example) -> None:
    """`accepted.json` is the snapshot that the example of snapshot_info took; the run is a copy of the accepted one."""
    if example.kind == "inventory":
        source = inventory_of(example, work / "fleet")
        done = _run(f"ansible-inventory -i {source} --graph", work)
        assert done.returncode == 0 and "@clusters:" in done.stdout and "WARNING" not in done.stderr, done.stderr
        return
    if example.name == "drift_info":
        shutil.copy(work / "snapshot.json", work / "accepted.json")
    tasks = [task for task in example.tasks if task.get("name") not in NOT_THIS_TASK]
    book = work / f"{example.kind}_{example.name}.yml"
    book.write_text(play_of(example, tasks), encoding="utf-8")
    variables = book.with_suffix(".json")
    variables.write_text(json.dumps(_variables(work, example)), encoding="utf-8")
    done = _run(f"ansible-playbook -i inventory/hosts.yml {book.name} -e @{variables.name}", work)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and not [word for word in CRASHES if word in said], said[-3000:]


@pytest.mark.long("they ask a rehearsal that is kept")
def test_the_examples_of_help_work(work: Path) -> None:
    listed = _run("gpufleet --help", work).stdout
    failed = []
    make_key = "openssl genpkey -algorithm ed25519 -out site.key && openssl pkey -in site.key -pubout -out site.pub"
    assert _run(make_key, work).returncode == 0
    for name in re.findall(r"^    ([a-z-]+) ", listed, re.MULTILINE):
        text = example_of_help(_run(f"gpufleet {name} --help", work).stdout).replace("/backup/", "")
        if not Command("--help", 0, text).needs_no_cluster:
            done = _run(text, work)
            # A rehearsal is signed as one, and verifies as no acceptance; nobody wrote the two bundles.
            if done.returncode != (3 if name in ("evidence-verify", "bundle-diff") else 0):
                failed.append(f"{text}\n{done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    assert not failed, "\n\n".join(failed)


@pytest.mark.long("all commands of the pages take a quarter of an hour and more")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_as_typed(work: Path, page: str, record_property: pytest.RecordProperty) -> None:
    # A page begins after the run of all gates, whatever the pages before it ran.
    latest, failed = work / ".run" / "latest", []
    latest.unlink()
    latest.symlink_to((work / "accepted").read_text(encoding="utf-8"))
    for command in commands_of(ROOT, page):
        if command.not_run:
            continue
        program = command.text.split()[0]
        assert program in RUN, f"{command}: {program} is not run here: put `<!-- not run: why -->` above its block"
        began = time.monotonic()
        done = _run(command.text, work)
        record_property(f"line {command.line}", round(time.monotonic() - began, 1))
        said = done.stdout + done.stderr
        crashes = [word for word in CRASHES if word in said]
        if done.returncode == TIMED_OUT:
            crashes.append(f"took more than {LIMIT_S} s")
        if done.returncode != command.status or crashes:
            failed.append(
                f"{command}\nended with {done.returncode}, announced is {command.status}; {crashes}\n{said[-2500:]}"
            )
    if any(word in (ROOT / page).read_text(encoding="utf-8") for word in _REMOVES):
        # What the next page works on.
        _run(
            "ansible-playbook gpufleet.bringup.site -i inventory/hosts.yml -e gpufleet_gates=gpu_stack,telemetry", work
        )
    assert not failed, "\n\n".join(failed)


def test_few_blocks_are_not_run_and_say_why() -> None:
    commands = [command for page in user_pages(ROOT) for command in commands_of(ROOT, page)]
    left_out = [command for command in commands if command.not_run]
    assert all(len(command.not_run.split()) >= 3 for command in left_out), left_out
    assert len(left_out) < len(commands) / 2, [str(command) for command in left_out]


def _variables(work: Path, example: Example) -> dict[str, Any]:
    name = (work / "accepted").read_text(encoding="utf-8")
    copy = work / "examples" / example.name / name
    shutil.copytree(work / ".run" / name, copy, symlinks=True, dirs_exist_ok=True)
    recipe = "{{ lookup('ansible.builtin.file', gpufleet_run ~ '/recipe.json') | from_json }}"
    return {
        "gpufleet_run": str(copy),
        "gpufleet_store": str(work / ".run" / "history.sqlite"),
        "gpufleet_criteria": {"service": "generic", "accelerator": "h100", "intent": "training", "platform": "volcano"},
        "server_version": "1.36.3",
        "recipe": recipe,
    }


def _run(command: str, work: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell as the user of the directory does, who exported the kubeconfig that was printed."""
    environ = environment_of(work)
    kubeconfig = work / ".run" / "rehearsal" / "cluster" / "admin.kubeconfig"
    if kubeconfig.is_file():
        environ["KUBECONFIG"] = str(kubeconfig)
    environ["PATH"] = os.pathsep.join((environ["PATH"], str(work / _PROGRAMS)))
    return subprocess.run(
        ["timeout", "--kill-after=30", str(LIMIT_S), "bash", "-c", command], cwd=work, env=environ, capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_reader_of_pages_finds_what_is_typed(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "```bash\nansible-playbook a.b.c -i x --check   # why\nansible-playbook a.b.d \\\n  -e y=1\n```\n"
        "<!-- not run: needs a real Slurm -->\n```\n$ gpufleet recipe --service eks\nits answer\n```\n"
        "<!-- ends with 8: a change is found -->\n\n    ansible-playbook a.b.e\n\n"
        "Then `ansible-playbook gpufleet.bringup.judge -e gpufleet_run=.run/latest`, "
        "or `ansible-playbook gpufleet.bringup.x ...`.\n",
        encoding="utf-8",
    )
    assert commands_of(tmp_path, "page.md") == [
        Command("page.md", 2, "ansible-playbook a.b.c -i x --check"),
        Command("page.md", 3, "ansible-playbook a.b.d -e y=1"),
        Command("page.md", 8, "gpufleet recipe --service eks", 0, "needs a real Slurm"),
        Command("page.md", 13, "ansible-playbook a.b.e", 8),
        Command("page.md", 15, "ansible-playbook gpufleet.bringup.judge -e gpufleet_run=.run/latest"),
    ]
