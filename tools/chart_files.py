# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chart as its files say: its defaults, and which values its templates read."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents

Path_ = tuple[str, ...]
_READ = re.compile(r"\.Values((?:\.[A-Za-z_][\w-]*)*)")
_INDEXED = re.compile(r"\b(?:index|dig)\s+\(?\s*(?:\$?\.Values)?((?:\.[A-Za-z_]\w*)*)\)?((?:\s+\"[^\"]+\")+)")
_WORD = re.compile(r"\.([A-Za-z_][\w-]*)|\"([\w./-]+)\"")
_COMMENT = re.compile(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart and those in it, each under the key of its values.

    `reads` are the paths that its templates name after `.Values`; `words` every name and text in them, for what is read
    of a part that was handed on.
    """

    name: str
    version: str
    values: Mapping[str, Any]
    reads: frozenset[Path_]
    words: frozenset[str]
    parts: Mapping[str, Chart]
    switches: frozenset[Path_]

    def names(self, path: Path_) -> bool:
        """Whether a template, or a condition of Chart.yaml, names just this path or something below it."""
        return any(read[: len(path)] == path for read in (*self.reads, *self.switches))

    def hands_on(self, path: Path_) -> bool:
        """Whether something above the path is read as a whole, and the path's last name stands in a template."""
        above = any(path[:length] in self.reads for length in range(len(path)))
        return above and path[-1] in self.words


def read_chart(path: Path) -> Chart:
    """Return the chart of a directory or an archive.

    Raises:
        InputError: it is none, or one of its files is not what Helm wants it to be.
    """
    return _chart(str(path), files_of(path))


def files_of(path: Path) -> dict[str, bytes]:
    """Return the files of a chart, in a directory or an archive, by their names in it.

    Raises:
        InputError: it is neither.
    """
    if path.is_dir():
        return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return _unpacked(str(path), path.read_bytes() if path.is_file() else b"")


def _unpacked(name: str, data: bytes) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            found = {}
            for entry in archive.getmembers():
                content = archive.extractfile(entry) if entry.isfile() else None
                if content is not None:
                    found[entry.name.removeprefix("./").partition("/")[2]] = content.read()
            return found
    except (tarfile.TarError, OSError, EOFError) as error:
        hint = "give the directory of a chart, or what `helm pull` wrote"
        raise InputError(name, f"is neither a directory nor an archive of a chart: {error}.", hint) from None


def _yaml(name: str, files: Mapping[str, bytes], file: str) -> dict[str, Any]:
    try:
        found = next(iter(documents(files.get(file, b"").decode("utf-8-sig"))), None) or {}
    except ValueError as error:
        raise InputError(f"{name}: {file}", f"is not YAML: {error}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{name}: {file}", "is no mapping.")
    return found


def _chart(name: str, files: Mapping[str, bytes]) -> Chart:
    if "Chart.yaml" not in files:
        raise InputError(name, "has no Chart.yaml.", "give the directory that has it, or what `helm pull` wrote")
    about = _yaml(name, files, "Chart.yaml")
    listed = [*(about.get("dependencies") or ()), *(_yaml(name, files, "requirements.yaml").get("dependencies") or ())]
    keys = {str(entry.get("name")): str(entry.get("alias") or entry.get("name")) for entry in listed}
    text = "\n".join(
        _COMMENT.sub("", data.decode("utf-8", "replace"))
        for file, data in sorted(files.items())
        if file.startswith("templates/") and not file.endswith("NOTES.txt")
    )
    parts = {keys.get(part.name, part.name): part for part in _parts(name, files)}
    conditions = [word for entry in listed for word in str(entry.get("condition") or "").split(",")]
    switches = {tuple(word.strip().split(".")) for word in conditions if word.strip()}
    switches |= {("tags", str(tag)) for entry in listed for tag in entry.get("tags") or ()}
    return Chart(
        name=str(about.get("name") or ""),
        version=str(about.get("version") or ""),
        values=_yaml(name, files, "values.yaml"),
        reads=frozenset(_reads(text)),
        words=frozenset(word for match in _WORD.finditer(text) for word in match.groups() if word),
        parts=parts,
        switches=frozenset(switches),
    )


def _parts(name: str, files: Mapping[str, bytes]) -> Iterator[Chart]:
    """Yield the charts below charts/, packed or not."""
    directories: dict[str, dict[str, bytes]] = {}
    for file, data in files.items():
        steps = file.split("/", 2)
        if steps[0] == "charts" and len(steps) == 3:
            directories.setdefault(steps[1], {})[steps[2]] = data
        elif steps[0] == "charts" and file.endswith(".tgz"):
            yield _chart(f"{name}: {file}", _unpacked(f"{name}: {file}", data))
    for directory, below in sorted(directories.items()):
        if "Chart.yaml" in below:
            yield _chart(f"{name}: charts/{directory}", below)


def _reads(text: str) -> Iterator[Path_]:
    for match in _READ.finditer(text):
        yield tuple(match[1].split(".")[1:])
    for match in _INDEXED.finditer(text):
        steps = tuple(step for word in re.findall(r"\"([^\"]+)\"", match[2]) for step in [word])
        yield (*match[1].split(".")[1:], *steps)
