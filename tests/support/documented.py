# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of the user's pages, as a person copies them: every one of a page, in its order.

A page's source marks what cannot run on one machine without a site: an HTML comment directly above the block,
`<!-- not run: why -->`. A block or an inline command that is meant to end otherwise than with 0 has
`<!-- ends with 8: why -->`. A file that a page shows has its name in a line of its own above the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What developers read, and what is generated, which has no command of its own.
NOT_FOR_USERS = (
    "docs/development.md", "docs/architecture.md", "docs/catalogue-maintenance.md", "docs/design/", "docs/reference/",
)  # fmt: skip
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]+?) -->\n+)?^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$|"
    r"(?:^<!-- (?P<indented_mark>[^\n]+?) -->\n+)?(?P<indented>^ {4}\S[^\n]*\n(?:^ {4,}\S[^\n]*\n)*)",
    re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"`(?P<command>ansible-playbook gpufleet\.bringup\.\w+(?: [^`\n]*)?)`")
_PROGRAMS = re.compile(
    r"(\$ )?(\S*/)?(ansible(-\w+)?|make|gpufleet|kubectl|pip|helm|python3?|createuser|export|cp|git|ssh-keygen) "
)
# A word of which the reader has to put his own: `<name>`, `...`, `DIRECTORY`, `--cluster=NAME`.
_PLACEHOLDER = re.compile(r"\.\.\.|…|<[\w -]+>|=[A-Z]{3,}\b")
_ENDS = re.compile(r"ends with (?P<status>\d+): \S")
_NOT_RUN = re.compile(r"not run: (?P<why>\S.+)")


_FILE = re.compile(r"^`(?P<path>[\w-]+(?:/[\w.-]+)+)`:\n\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# What answers from the catalogue, from files, or from the inventory alone.
_WITHOUT_CLUSTER = re.compile(
    r"gpufleet (recipe|query|explain|values|diff|list|versions|upgrade-check|faults|plan|bundle(?!-diff))\b|"
    r"ansible-playbook gpufleet\.bringup\.recipe\b|"
    r"ansible-playbook gpufleet\.bringup\.site .*--tags plan\b"
)


@dataclass(frozen=True)
class Command:
    """One command of a page.

    Attributes:
        page: path of the page from the root of the checkout.
        line: number of its first line.
        text: the words as typed, continuation lines joined, without the comment behind them.
        status: the exit status that the page announces.
        not_run: why it cannot be run here; empty where it can.
    """

    page: str
    line: int
    text: str
    status: int = 0
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def needs_no_cluster(self) -> bool:
        """It answers by itself, in seconds."""
        return bool(_WITHOUT_CLUSTER.match(self.text)) and "snapshot=cluster" not in self.text


def user_pages(root: Path) -> list[str]:
    """Return the pages of users, README first."""
    found = [Path("README.md"), *(path.relative_to(root) for path in sorted((root / "docs").rglob("*.md")))]
    found += [path.relative_to(root) for path in sorted((root / "inventories").glob("*/README.md"))]
    return [str(page) for page in found if not str(page).startswith(NOT_FOR_USERS)]


def commands_of(root: Path, page: str) -> list[Command]:
    """Return the commands of a page in its order."""
    text = (root / page).read_text(encoding="utf-8")
    found = list(_of_blocks(page, text))
    in_blocks = {command.text for command in found}
    for match in _INLINE.finditer(_without_blocks(text)):
        command = match["command"]
        if command not in in_blocks and not _PLACEHOLDER.search(command):
            found.append(Command(page, text.count("\n", 0, match.start()) + 1, command))
    return sorted(found, key=lambda command: command.line)


def blocks_of(root: Path, page: str) -> list[Command]:
    """Return the fenced blocks of a page that are typed, each as one command of all its lines, marked or not."""
    text = (root / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        if match["language"] in ("sh", "bash"):
            ends = _ENDS.match(match["mark"] or "")
            line = text.count("\n", 0, match.start("text")) + 1
            found.append(Command(page, line, match["text"], int(ends["status"]) if ends else 0))
    return found


def files_of(root: Path, page: str) -> dict[str, str]:
    """Return the files that a page shows, by their paths."""
    return {match["path"]: match["text"] for match in _FILE.finditer((root / page).read_text(encoding="utf-8"))}


def write_files(root: Path, directory: Path) -> None:
    """Write the files of all pages into a directory, as their readers do."""
    for page in user_pages(root):
        for name, text in files_of(root, page).items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")


def example_of_help(text: str) -> str:
    """Return the command below `example:` in a text of --help, empty if there is none."""
    found = re.search(r"^example:\n +(\S.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _of_blocks(page: str, text: str) -> Iterator[Command]:
    for match in _FENCE.finditer(text):
        language, body = match["language"] or "", match["text"] or match["indented"] or ""
        if language not in ("", "sh", "bash", "console"):
            continue
        mark = match["mark"] or match["indented_mark"] or ""
        ends, not_run = _ENDS.match(mark), _NOT_RUN.match(mark)
        group = "text" if match["text"] is not None else "indented"
        first = text.count("\n", 0, match.start(group)) + 1
        for line, words in _joined(body):
            if _PROGRAMS.match(words):
                yield Command(
                    page, first + line, words.removeprefix("$ "), int(ends["status"]) if ends else 0,
                    not_run["why"] if not_run else "",
                )  # fmt: skip


def _joined(body: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line and the words of each command, without its comment."""
    held, begun = "", 0
    for number, raw in enumerate(body.splitlines()):
        line = raw.strip()
        if not held:
            begun = number
        held += re.sub(r"\s+#\s.*$", "", line)
        if held.endswith("\\"):
            held = f"{held[:-1].rstrip()} "
            continue
        yield begun, held
        held = ""


def _without_blocks(text: str) -> str:
    """Return the text with its blocks blank, so that lines keep their numbers."""
    return _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
