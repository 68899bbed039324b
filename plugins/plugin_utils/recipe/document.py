# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One recipe document: read, its kind recognised, its shape checked, every problem with file and line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from ..outcome.errors import BringupError, InputError
from .recognise import expected_kind, plainly_none, recognised, speaks_of_us
from .schema import SHAPES, Kind, is_foreign
from .shape import Checker
from .tree import TreeFile, read_text
from .yaml_text import Path, decode, positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One decoded document; `text` stays for the lines of later problems."""

    kind: Kind
    api_version: str
    data: dict[str, Any]
    file: TreeFile
    text: str

    @property
    def foreign(self) -> bool:
        """It was written for the upstream tool."""
        return is_foreign(self.api_version)

    def at(self, path: Path) -> str:
        """Return `file:line` of a value."""
        return _place(self.file, self.text, path)

    def problem(self, path: Path, reason: str, hint: str = "") -> InputError:
        """Return a problem at a value."""
        return InputError(self.at(path), reason, hint)


def place_of(file: str, path: Path) -> str:
    """Return `file:line` of a value in a file that was loaded before; of the file alone where it has gone."""
    if not file:
        return "the recipe data"
    try:
        text = read_text(FilePath(file))
    except InputError:
        return file
    return f"{file}:{line_of(positions(text, file), path)}"


def _place(file: TreeFile, text: str, path: Path) -> str:
    return f"{file.path}:{line_of(positions(text, file.name), path)}"


def line_of(lines: dict[Path, tuple[int, str]], path: Path) -> int:
    """Return the line of the value at a path or of the nearest one above it."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]][0]
    return 1


def _put(data: Any, path: Path, value: Any) -> None:
    for step in path[:-1]:
        data = data[step]
    data[path[-1]] = value


def _check(document: Document, problems: list[BringupError], warnings: list[str]) -> bool:
    """Check the shape; return whether the document can be used."""
    checker = Checker()
    checker.check(document.data, SHAPES[document.kind])
    if not checker.findings and not checker.untexted:
        return True
    usable = True
    lines = positions(document.text, document.file.name)
    for finding in checker.findings:
        at = f"{document.file.path}:{line_of(lines, finding.path)}"
        problem = InputError(at, finding.reason, finding.hint)
        if finding.unknown_key and document.foreign:
            warnings.append(f"{at}: {finding.reason} It is ignored, as the upstream tool does.")
            continue
        problems.append(problem)
        usable = usable and finding.unknown_key
    for path in checker.untexted:
        line, raw = lines.get(path, (1, ""))
        if document.foreign:
            _put(document.data, path, raw)
        else:
            reason = f"the text {raw} is read as a number or as true/false."
            problems.append(InputError(f"{document.file.path}:{line}", reason, f'Write "{raw}" in quotes.'))
            usable = False
    return usable


def _decoded(file: TreeFile, text: str) -> Any:
    """Return the data of a file, None for one that is not YAML and was not meant as a document."""
    try:
        return decode(text, str(file.path))
    except InputError:
        if expected_kind(file.name) is not None or speaks_of_us(text):
            raise
        return None


def read_document(
    file: TreeFile, problems: list[BringupError], warnings: list[str], *, ours: bool = False
) -> Document | None:
    """Return a file's document; None if it was not meant as one, or if it is wrong and the problems say so.

    Args:
        file: the file.
        problems: what is wrong is added here.
        warnings: what is ignored is added here.
        ours: it lies in the collection's own tree, whose other files need not be decoded to know that.
    """
    try:
        text = read_text(file.path)
        if ours and plainly_none(file.name, text):
            return None
        data = _decoded(file, text)
        found = recognised(file.name, data, lambda path: _place(file, text, path))
    except InputError as error:
        problems.append(error)
        return None
    if found is None:
        return None
    document = Document(kind=found[0], api_version=found[1], data=data, file=file, text=text)
    return document if _check(document, problems, warnings) else None
