# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The product cannot see the model: in a whole run only the rehearsal's own processes and verbs open its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rehearsal_harness import rehearse

# Every Python process of the run loads this first and writes down who opens the model, with the files on its stack.
WATCH = """
import json, os, sys

def _watch(event, arguments):
    if event != "open" or not isinstance(arguments[0], (str, bytes)):
        return
    path = os.fsdecode(arguments[0])
    if "model.yaml" not in os.path.basename(path):
        return
    files, frame = [], sys._getframe(1)
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    line = json.dumps({"argv": sys.argv[:3], "files": files}) + chr(10)
    os.write(_LOG, line.encode())

_LOG = os.open(os.environ["MODEL_WATCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
sys.addaudithook(_watch)
"""
OWN_VERBS = ("plugins/action/rehearsal_start.py", "plugins/action/rehearsal_stop.py")


def test_no_verb_of_the_product_opens_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/sitecustomize.py").write_text(WATCH)
    log = tmp_path / "opened.jsonl"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "watch"))
    monkeypatch.setenv("MODEL_WATCH_LOG", str(log))
    run = rehearse(tmp_path / "work", rehearsal_nodes=3, gates=["facility", "nodes", "gpu_stack"])
    assert run.rc == 0, run.output[-3000:]
    opened = [json.loads(line) for line in log.read_text().splitlines()]
    assert opened, "the watch saw nothing, not even the rehearsal itself"
    strangers = [
        entry
        for entry in opened
        if not any(file.endswith(OWN_VERBS) for file in entry["files"]) and not _is_rehearsal_process(entry["argv"])
    ]
    assert not strangers


def _is_rehearsal_process(argv: list[str]) -> bool:
    return any("rehearsal." in word or "/rehearsal/" in word for word in argv)
