# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One recipe document: read, its kind recognised, its shape checked, every problem with file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..outcome.errors import BringupError, InputError
from .schema import OWN_API, SHAPES, Kind, is_foreign
from .shape import Checker, unknown_hint
from .tree import TreeFile, read_text
from .yaml_text import Path, decode, positions

_KIND = re.compile(r"^kind:[ \t]*[\"']?([A-Za-z]*)", re.MULTILINE)
_API = re.compile(r"^apiVersion:[ \t]*[\"']?([^\s\"'#]*)", re.MULTILINE)
_KINDS = {kind.value: kind for kind in Kind}
# Where every YAML file must be a recipe document.
_STRICT_DIRECTORIES = ("overlays/", "mixins/")


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
        return f"{self.file.path}:{line_of(positions(self.text, self.file.name), path)}"

    def problem(self, path: Path, reason: str, hint: str = "") -> InputError:
        """Return a problem at a value."""
        return InputError(self.at(path), reason, hint)


def line_of(lines: dict[Path, tuple[int, str]], path: Path) -> int:
    """Return the line of the value at a path or of the nearest one above it."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]][0]
    return 1


def _recognised(file: TreeFile, text: str) -> tuple[Kind, str] | None:
    kind_match, api_match = _KIND.search(text), _API.search(text)
    kind = kind_match.group(1) if kind_match else ""
    api = api_match.group(1) if api_match else ""
    if kind in _KINDS and (api == OWN_API or is_foreign(api)):
        return _KINDS[kind], api
    if not file.name.startswith(_STRICT_DIRECTORIES):
        return None
    # What is not YAML at all is told first.
    decode(text, str(file.path))
    if kind not in _KINDS:
        raise InputError(str(file.path), f"has the unknown kind {kind!r}.", unknown_hint(kind, _KINDS))
    known = (OWN_API, "aicr.nvidia.com/v1alpha1", "aicr.run/v1alpha2")
    raise InputError(str(file.path), f"has the unknown apiVersion {api!r}.", unknown_hint(api, known))


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


def read_document(file: TreeFile, problems: list[BringupError], warnings: list[str]) -> Document | None:
    """Return a file's document; None if it is none, or if it is wrong and the problems say so."""
    try:
        text = read_text(file.path)
        recognised = _recognised(file, text)
        if recognised is None:
            return None
        kind, api = recognised
        data = decode(text, str(file.path))
    except InputError as error:
        problems.append(error)
        return None
    document = Document(kind=kind, api_version=api, data=data, file=file, text=text)
    return document if _check(document, problems, warnings) else None
