# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Watches who opens the model of a rehearsal: only the rehearsal's own processes and verbs may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Every Python process of the run loads this first and writes down who opens the model, with the files on its stack.
_HOOK = """
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
_OWN_VERBS = tuple(f"rehearsal/plugins/action/rehearsal_{verb}.py" for verb in ("start", "stop", "faults"))


@contextmanager
def watched(directory: Path) -> Iterator[Path]:
    """Have every process that is started meanwhile watched; yield the file with what was seen."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(_HOOK, encoding="utf-8")
    log = directory / "opened.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(directory))
        patch.setenv("MODEL_WATCH_LOG", str(log))
        yield log


def openings(log: Path) -> list[dict[str, Any]]:
    """Return every opening of the model that was seen."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def strangers(log: Path) -> list[dict[str, Any]]:
    """Return the openings by anybody but the rehearsal itself."""
    return [
        entry
        for entry in openings(log)
        if not any(file.endswith(_OWN_VERBS) for file in entry["files"])
        and not any("rehearsal." in word or "/rehearsal/" in word for word in entry["argv"])
    ]
