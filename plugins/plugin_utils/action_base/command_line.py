# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command line that starts a run again, in a form that a report may show."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.splitter import split_args

from ..run.start_ansible import TYPED
from ..runtime.foreign_yaml import documents, kubernetes_loader
from ..runtime.redaction import redact
from ..runtime.text import shell_word

_PREFIX = "gpufleet_"
_EXTRA = ("-e", "--extra-vars")
_LONGEST = 1000


def command_line(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path, *, without: Collection[str] = ()
) -> str:
    """Return how this ansible-playbook was called.

    Extra variables of others are shown only by name: their values may be secret. The result is empty in AWX, where a
    job is not started by a command, and for a command that is no single line or too long for a report.

    Args:
        argv: the arguments of the process, its program first.
        environment: the variables of its environment.
        directory: the working directory; a program below it is shown by its relative path.
        without: names of extra variables that are left out.
    """
    if environment.get("AWX_HOST"):
        return ""
    words, given = [_program(argv[0], environment, directory)], list(argv[1:])
    if typed := shlex.split(environment.get(TYPED, "")):
        # The program of ours that started this one, with its verb, which stands for playbook and tags.
        words, given = [_program(typed[0], environment, directory), *typed[1:]], given[given.index(typed[-1]) + 1 :]
    while given:
        word = given.pop(0)
        option, equals, value = word.partition("=")
        if word in _EXTRA and given:
            words += _extra(given.pop(0), without)
        elif option == _EXTRA[1] and equals:
            words += _extra(value, without)
        elif word.startswith("-e") and not word.startswith("--") and len(word) > 2:
            words += _extra(word[2:], without)
        else:
            words.append(shlex.quote(word))
    line = redact(" ".join(words))
    return line if len(line) <= _LONGEST and "\n" not in line else ""


def _program(path: str, environment: Mapping[str, str], directory: Path) -> str:
    """Return the program in a form that can be called again: as typed, or by its name alone where a shell found it."""
    program = Path(path)
    if program.name == "__main__.py":
        return f"{_program(sys.executable, environment, directory)} -m {shlex.quote(program.parent.name)}"
    if program.is_absolute() and program.is_relative_to(directory):
        return shlex.quote(os.path.relpath(program, directory))
    found = program.is_absolute() and str(program.parent) in environment.get("PATH", os.defpath).split(os.pathsep)
    return shlex.quote(program.name if found else path)


def _extra(text: str, without: Collection[str]) -> list[str]:
    """Return extra variables as words: those of this collection as they are, those of others by name."""
    if text.startswith("@"):
        return ["-e", shlex.quote(text)]
    if text.startswith(("{", "[")):
        return _structured(text, without)
    words = []
    for assignment in _split(text):
        name, equals, _value = assignment.partition("=")
        # Ansible drops a word that assigns nothing.
        if equals and name not in without:
            words += ["-e", shell_word(assignment) if name.startswith(_PREFIX) else f"{shlex.quote(name)}=..."]
    return words


def _split(text: str) -> list[str]:
    """Return the assignments as Ansible splits them; quotes within a value stay, because Ansible needs them again."""
    try:
        return list(split_args(text))
    except AnsibleError:
        return [text]


def _structured(text: str, without: Collection[str]) -> list[str]:
    import json

    try:
        found: Any = next(iter(documents(text, kubernetes_loader(strict=True))), None)
    except ValueError:
        return []
    if not isinstance(found, dict):
        return []
    own = {name: value for name, value in found.items() if str(name).startswith(_PREFIX) and name not in without}
    others = [
        word for name in found if not str(name).startswith(_PREFIX) for word in ("-e", f"{shlex.quote(name)}=...")
    ]
    shown = ["-e", shlex.quote(json.dumps(own, default=str))] if own else []
    return [*shown, *others]
