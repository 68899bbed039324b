# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Extra variables as they were typed: `-e k="a b"` reaches Ansible as `k=a b`, of which it reads `a` and drops `b`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible.parsing.splitter import split_args

from ..outcome.errors import InputError
from ..outcome.wording import count
from ..runtime.text import extra_variable

_PREFIX = "gpufleet_"


def unnamed_words(given: Sequence[str]) -> Iterator[InputError]:
    """Yield one error for all words after `-e` that Ansible drops because they assign nothing.

    Args:
        given: the values of all options `-e`, as a shell left them.
    """
    found = [(text, split_args(text)) for text in given if text and not text.startswith(("@", "{", "["))]
    cut = [words for _text, words in found if any("=" not in word for word in words)]
    if not cut:
        return
    meant = [group for words in cut for group in _groups(words)]
    dropped = [word for name, words in meant for word in (words[1:] if name else words)]
    # The value of an unknown variable may be secret.
    forms = [
        extra_variable(name, " ".join(words)) if name.startswith(_PREFIX) else f"-e \"{name}='...'\""
        for name, words in meant
        if name
    ]
    ours = all(name.startswith(_PREFIX) for name, words in meant if name and len(words) > 1)
    shown = ", ".join(repr(word) for word in dropped) if ours else count(len(dropped), "word")
    hint = f"quote the text for Ansible as well: {' '.join(forms)}" if forms else "write -e NAME=VALUE"
    yield InputError(
        "option -e", f"Ansible splits its text at spaces and drops what has no `=`, which is {shown} here.", hint
    )


def _groups(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each assignment with the words after it that were meant as a part of its value; without a name there was
    no assignment."""
    groups: list[tuple[str, list[str]]] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            groups.append((name, [value]))
        elif groups:
            groups[-1][1].append(word)
        else:
            groups.append(("", [word]))
    return groups
