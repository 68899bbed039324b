# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Records about the pinned versions: recipes/versions.yaml, and which versions of Kubernetes they support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path

from ..constraint.evaluate import parse_version
from ..outcome.errors import InputError
from ..runtime.files import recipe_roots
from ..runtime.strict import decode, read_yaml
from .chart_version import same_chart_version

FILE = "versions.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesRange:
    """The minor versions of Kubernetes that a project declares to support. An end that it does not name is empty."""

    source: str
    oldest: str = ""
    newest: str = ""

    def __str__(self) -> str:
        if self.oldest and self.newest:
            return f"{self.oldest} to {self.newest}"
        return f"{self.oldest} or newer" if self.oldest else f"up to {self.newest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record about one version of a chart. The head of the file explains the fields."""

    of: str
    checked: str
    source: str
    released: str = ""
    kubernetes: KubernetesRange | None = None

    def is_of(self, version: str) -> bool:
        """Tell whether the record is about this version."""
        return same_chart_version(self.of, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """The record about an image's tags, or digests."""

    of: tuple[str, ...]
    checked: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Pins that are raised together."""

    pins: tuple[str, ...]
    why: str
    source: str
    same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The whole file: records by component, by image, by component and path of its values, and pairs."""

    components: dict[str, Record] = field(default_factory=dict)
    images: dict[str, ImageRecord] = field(default_factory=dict)
    values: dict[str, Record] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()


class Support(StrEnum):
    """Whether a chart supports a version of Kubernetes."""

    MET = "met"
    NOT_MET = "not met"
    UNKNOWN = "unknown"


def recorded_versions(recipe_data: Sequence[str | Path] = ()) -> Versions:
    """Return the records. Those of private directories replace or extend ours.

    Raises:
        InputError: a file does not have the expected form.
    """
    found = [_read(root / FILE) for root in recipe_roots(recipe_data) if (root / FILE).is_file()]
    return Versions(
        components={name: record for each in found for name, record in each.components.items()},
        images={name: record for each in found for name, record in each.images.items()},
        values={name: record for each in found for name, record in each.values.items()},
        pairs=tuple(pair for each in found for pair in each.pairs),
    )


def _read(path: Path) -> Versions:
    found = decode(Versions, read_yaml(path), str(path))
    records: dict[str, Record | ImageRecord] = {**found.components, **found.images, **found.values}
    for name, record in records.items():
        try:
            date.fromisoformat(record.checked)
            ends = record.kubernetes if isinstance(record, Record) else None
            if ends is not None and not (ends.oldest or ends.newest):
                raise InputError(name, "kubernetes has neither end.", "state oldest, newest or both")
            for text in filter(None, (ends.oldest, ends.newest) if ends else ()):
                parse_version(text)
        except ValueError:
            text = f"checked: {record.checked!r} is no day."
            raise InputError(f"{path}: {name}", text, "write it as 2026-11-29") from None
        except InputError as error:
            raise InputError(f"{path}: {name}", f"{error.subject} {error.reason}", error.hint) from None
    return found


def supported_on(record: Record | None, version: str, kubernetes: str) -> tuple[Support, str]:
    """Return whether the project of a chart supports it on a version of Kubernetes, and why.

    Args:
        record: the record about the component.
        version: its pinned or installed version.
        kubernetes: version of the API server.

    Raises:
        InputError: the version of Kubernetes is invalid.
    """
    server = parse_version(kubernetes)
    if record is None or not record.is_of(version):
        return Support.UNKNOWN, f"what was read is of {record.of}" if record else "nothing was read of it"
    ends = record.kubernetes
    if ends is None:
        return Support.UNKNOWN, "no word of its project about Kubernetes was found"
    if ends.oldest and server.compare(parse_version(ends.oldest)) < 0:
        return Support.NOT_MET, f"its project supports {ends}"
    if ends.newest and server.compare(parse_version(ends.newest)) > 0:
        return Support.NOT_MET, f"its project supports {ends}"
    return Support.MET, f"its project supports {ends}"


def kubernetes_lines(pins: Mapping[str, str], kubernetes: str, recorded: Versions) -> list[str]:
    """Return a line about the components whose projects do not support a version of Kubernetes. None if all do.

    Args:
        pins: version by component.
        kubernetes: version of the API server.
        recorded: the records.
    """
    try:
        found = {name: supported_on(recorded.components.get(name), pinned, kubernetes) for name, pinned in pins.items()}
    except InputError:
        return []
    reported = [f"{name} {pins[name]} ({why})" for name, (support, why) in found.items() if support is Support.NOT_MET]
    return [f"Kubernetes {kubernetes} is not what these charts are for: {'; '.join(reported)}"] if reported else []


def apart(pair: Pair, pins: Mapping[str, str], recorded: Versions) -> str:
    """Return how pins that belong together differ. Empty if they do not. Missing pins do not count."""
    there = {name: pins[name] for name in pair.pins if name in pins}
    if pair.same:
        first = next(iter(there.values()), "")
        differ = any(not same_chart_version(first, version) for version in there.values())
    else:
        as_read = {_as_read(name, version, recorded) for name, version in there.items()}
        differ = len(as_read) > 1
    if not differ:
        return ""
    words = ", ".join(f"{name} {version}" for name, version in there.items())
    return f"{words}: they belong together, {pair.why}"


def _as_read(name: str, version: str, recorded: Versions) -> bool:
    image = recorded.images.get(name)
    if image is not None:
        return version in image.of
    record = recorded.components.get(name) or recorded.values.get(name)
    return record is not None and record.is_of(version)
