# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files and dimensions of a private tree that nothing reads. A misspelled name must not go unnoticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from .document import Document
from .health_checks import assert_file, readiness_file
from .model import Catalogue, ComponentRef, Layer, Mixin
from .nearest import unknown_hint
from .schema import Kind
from .tree import TreeFile

# Read directly from the directory by others: SKU facts, kinds of GPU, expectations, records about versions.
_READ_BY_OTHERS: Mapping[str, tuple[str, ...]] = {
    "hardware": (".yaml", ".yml"),
    "accelerators": (".yaml",),
    "thresholds": (".yaml",),
    "": ("versions.yaml",),
}
# Files for people and tools beside the data.
_FOR_PEOPLE = (".md", ".rst", ".txt", ".license")
_FOR_PEOPLE_NAMES = ("license", "notice", "codeowners", "makefile", "readme", "proven.yaml")
_SHOWN = 12


def _refs(catalogue: Catalogue) -> Iterable[ComponentRef]:
    owners: tuple[Layer | Mixin, ...] = (*catalogue.layers.values(), *catalogue.mixins.values())
    for owner in owners:
        yield from owner.fragment.components
    for layer in catalogue.layers.values():
        for choice in layer.profile.choices.values() if layer.profile is not None else ():
            yield from choice.components


def named_files(catalogue: Catalogue) -> frozenset[str]:
    """Return every file that a layer, a mixin, a profile or a registry names, with the values files beside them."""
    found: set[str] = set()
    for ref in _refs(catalogue):
        found.update((*ref.pre_manifest_files, *ref.manifest_files))
        if ref.values_file:
            found.update((ref.values_file, f"components/{ref.name}/values.yaml"))
    for name, entry in catalogue.registry.items():
        files = (assert_file(name, catalogue), readiness_file(name, catalogue))
        found.update((*(entry.data.get("manifestFiles") or ()), *files))
    return frozenset(found)


def _is_for_others(name: str) -> bool:
    directory, _slash, base = name.rpartition("/")
    if base.startswith(".") or base.casefold().endswith(_FOR_PEOPLE) or base.casefold() in _FOR_PEOPLE_NAMES:
        return True
    return base.endswith(_READ_BY_OTHERS.get(directory, ())) and directory in _READ_BY_OTHERS


def _shown(names: list[str], tree: Iterable[str]) -> str:
    """Return the names as text. A directory of which nothing is read is named once."""
    unread = set(names)
    partly = {name.partition("/")[0] for name in tree if name not in unread}
    counts = Counter(
        f"{top}/" if slash and top not in partly else name
        for name in names
        for top, slash, _rest in [name.partition("/")]
    )
    words = [f"{word} ({count} files)" if word.endswith("/") else word for word, count in counts.items()]
    more = f", and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def unread_warnings(
    catalogue: Catalogue, trees: Iterable[tuple[Path, Mapping[str, TreeFile]]], read: frozenset[Path]
) -> tuple[str, ...]:
    """Return one warning for each directory with files that nothing reads.

    Args:
        catalogue: the catalogue.
        trees: each private directory with its files.
        read: the files that were read as documents, or are reported as wrong.
    """
    named = named_files(catalogue)
    warnings = []
    for root, tree in trees:
        names = [
            name
            for name, file in tree.items()
            if file.path not in read and name not in named and not _is_for_others(name)
        ]
        if names:
            warnings.append(f"{root}: nothing reads {_shown(names, tree)}: no layer names it, and it is no document.")
        elif not tree:
            warnings.append(f"{root}: holds no recipe data.")
    return tuple(warnings)


def unnamed_dimensions(private: Iterable[Document], known: Collection[str], named: Collection[str]) -> Iterable[str]:
    """Yield one warning for each new dimension of criteria on which nothing depends.

    Args:
        private: the documents of private trees.
        known: the dimensions of the collection itself.
        named: the dimensions in the criteria of any layer.
    """
    for document in private:
        new = document.data["dimensions"] if document.kind is Kind.VOCABULARY else ()
        for name in new:
            if name not in known and name not in named:
                yield (
                    f"{document.at(('dimensions', name))}: the dimension {name!r} is new and no layer names it, so "
                    f"nothing depends on it. {unknown_hint(name, known)}"
                )
