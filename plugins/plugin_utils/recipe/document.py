# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One recipe document: read, its kind recognised, its shape checked, every problem with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ..outcome.errors import BringupError, InputError
from .dialect import UPSTREAM_APIS
from .nearest import unknown_hint
from .newer import NOT_KNOWN, changes_installation, lost_with, refusal
from .schema import OWN_API, SHAPES, Checker, Kind, is_foreign
from .tree import TreeFile, read_text
from .yaml_text import Path, decode, positions

# The kind of a document is recognised by its content in any spelling of YAML, and never by its first bytes. What was
# meant as a recipe document and is invalid is an error. Other files are reported to the user as not read.

_KINDS = {kind.value: kind for kind in Kind}
_OWN_GROUP = OWN_API.partition("/")[0] + "/"
_KNOWN_APIS = (OWN_API, *dict.fromkeys(UPSTREAM_APIS.values()))
# Other documents of upstream's tool that people keep beside a tree. None of them adds to a recipe.
_OTHER_KINDS = frozenset(
    ("AICRConfig", "BundleProvenance", "ComponentUpgrades", "KWOKNodeProfile", "Recipe", "RecipeCriteria",
     "RecipeResult", "Snapshot")
)  # fmt: skip
# Kinds of Kubernetes share letters with ours. Above this similarity a kind is a misspelling of ours.
_LIKE = 0.8
# Places for these kinds only, where anything else is a mistake.
_EXPECTED: tuple[tuple[str, Kind], ...] = (
    ("overlays/", Kind.OVERLAY),
    ("mixins/", Kind.MIXIN),
    ("validators/", Kind.CHECKS),
)
_EXPECTED_FILES = {"registry": Kind.REGISTRY, "criteria": Kind.VOCABULARY, "tree": Kind.TREE}
# Quick tests by pattern: for files of our own tree, whose form is tested, and for files that are not YAML.
_PLAIN = re.compile(rf"^kind:[ \t]*(?:{'|'.join(_KINDS)})[ \t]*$", re.MULTILINE)
_SPEAKS_OF_US = re.compile(rf"{'|'.join(_KINDS)}|{re.escape(_OWN_GROUP)}|\baicr\.(?:nvidia\.com|run)/")


def expected_kind(name: str) -> Kind | None:
    """Return the kind of document that a place in a tree is for. None where any file may be."""
    stem, _dot, _ending = name.rpartition(".")
    if "/" not in name:
        return _EXPECTED_FILES.get(stem.casefold())
    return next((kind for place, kind in _EXPECTED if name.startswith(place)), None)


def plainly_none(name: str, text: str) -> bool:
    """Tell, without decoding it, that a file of our own tree is no document."""
    return expected_kind(name) is None and not _PLAIN.search(text)


def speaks_of_us(text: str) -> bool:
    """Tell whether a text that is not YAML names a kind or an API of ours, so that it was meant as a document."""
    return bool(_SPEAKS_OF_US.search(text))


def _word(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value.strip() if isinstance(value, str) else "" if value is None else str(value)


def _meant(expected: Kind | None, kind: str, api: str) -> bool:
    """Tell whether a file was meant as a recipe document: by its place, its API, or a kind that may be misspelled."""
    if expected is not None or kind in _KINDS:
        return True
    if kind in _OTHER_KINDS:
        return False
    from difflib import get_close_matches

    folded = [known.casefold() for known in _KINDS]
    return api.startswith(_OWN_GROUP) or bool(get_close_matches(kind.casefold(), folded, 1, _LIKE))


def recognised(name: str, data: Any, at: Callable[[Path], str]) -> tuple[Kind, str] | None:
    """Return kind and API version of a decoded file. None if it was not meant as a recipe document.

    Args:
        name: the file's path inside its tree.
        data: its plain data.
        at: returns `file:line` of a value, for errors.

    Raises:
        InputError: it was meant as one, and its kind or API version is wrong.
    """
    expected = expected_kind(name)
    if not isinstance(data, dict):
        if expected is None:
            return None
        reason = "is empty" if data is None else "is no mapping"
        raise InputError(at(()), f"{reason}, expected a {expected.value}.", f"Begin with {_head(expected)}.")
    kind, api = _word(data, "kind"), _word(data, "apiVersion")
    if not _meant(expected, kind, api):
        return None
    if kind not in _KINDS:
        reason = f"has the unknown kind {kind!r}." if kind else "has no kind."
        hint = unknown_hint(kind, _KINDS) if kind or expected is None else f"Begin with {_head(expected)}."
        raise InputError(at(("kind",)), reason, hint)
    if not (api == OWN_API or is_foreign(api)):
        reason = f"has the unknown apiVersion {api!r}." if api else "has no apiVersion."
        raise InputError(at(("apiVersion",)), reason, unknown_hint(api, _KNOWN_APIS))
    return _KINDS[kind], api


def _head(kind: Kind) -> str:
    return f"`apiVersion: {OWN_API}` and `kind: {kind.value}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One decoded document. `text` is kept for the lines of later problems.

    `refused` are keys that this release does not know and that may change what is installed, with their paths.
    """

    kind: Kind
    api_version: str
    data: dict[str, Any]
    file: TreeFile
    text: str
    refused: list[tuple[Path, InputError]] = field(default_factory=list)

    @property
    def foreign(self) -> bool:
        """Whether it was written for the upstream tool."""
        return is_foreign(self.api_version)

    def at(self, path: Path) -> str:
        """Return `file:line` of a value."""
        return _place(self.file, self.text, path)

    def refusals(self, *start: str | int) -> tuple[InputError, ...]:
        """Return why nothing may be installed from the values below a path."""
        return tuple(error for path, error in self.refused if path[: len(start)] == start)

    def problem(self, path: Path, reason: str, hint: str = "") -> InputError:
        """Return the error for a value, with file and line."""
        return InputError(self.at(path), reason, hint)


def place_of(file: str, path: Path) -> str:
    """Return `file:line` of a value in a file that was loaded before. It is the file alone if that is gone."""
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
    """Return the line of the value at a path, or of the nearest one above it."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]][0]
    return 1


def _get(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _put(data: Any, path: Path, value: Any) -> None:
    _get(data, path[:-1])[path[-1]] = value


def _check(document: Document, problems: list[BringupError], warnings: list[str]) -> bool:
    """Check the shape. Return whether the document can be used."""
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
            if changes_installation(document.kind, finding.path, _get(document.data, finding.path)):
                document.refused.append((finding.path, refusal(at, finding.reason, finding.hint)))
                warnings.append(str(document.refused[-1][1]))
            else:
                warnings.append(f"{at}: {finding.reason.rstrip('.')}: {NOT_KNOWN}; {lost_with(finding.path)}.")
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
    """Return the data of a file. None if it is not YAML and was not meant as a document."""
    try:
        return decode(text, str(file.path))
    except InputError:
        if expected_kind(file.name) is not None or speaks_of_us(text):
            raise
        return None


def read_document(
    file: TreeFile, problems: list[BringupError], warnings: list[str], *, ours: bool = False
) -> Document | None:
    """Return a file's document. None if it was not meant as one, or if it is wrong, which is in the problems.

    Args:
        file: the file.
        problems: errors are added here.
        warnings: ignored keys are added here.
        ours: the file is in the collection's own tree, so that files that are no documents need not be decoded.
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
