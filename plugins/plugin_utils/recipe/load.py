# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Loading of recipe trees into one catalogue: strict, all problems at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from ..hardware.accelerator import DIRECTORY, Accelerator, load_accelerators
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..runtime.files import RECIPES
from . import decode
from .criteria import (
    ANY,
    ORDER,
    Contradiction,
    Criteria,
    DetectionRule,
    Dimension,
    Vocabulary,
    make_criteria,
    parse_criteria,
)
from .dialect import Dialect
from .document import Document, read_document
from .model import Catalogue, Check, Component, Layer, Mixin
from .schema import Kind
from .tree import BASE_FILE, TreeFile, is_document, tree_files
from .unread import unnamed_dimensions, unread_warnings
from .verify import unresolvable, verify

BASE = "base"
_ACCELERATOR = "accelerator"
_OWN_TREE = RECIPES.resolve()
_FIRST_GROUPS = ("aicr.nvidia.com/", "eidos.nvidia.com/")


@dataclass(slots=True)
class _Loading:
    """What is collected while documents are read."""

    problems: list[BringupError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    layers: dict[str, Layer] = field(default_factory=dict)
    mixins: dict[str, Mixin] = field(default_factory=dict)
    registry: dict[str, Component] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    read: set[Path] = field(default_factory=set)


def dialect_of(documents: Sequence[Document], warnings: list[str]) -> Dialect:
    """Return the merge rules that one directory was written for.

    A statement in its `tree.yaml` decides. Upstream changed its rules when it introduced mixins, and did not change the
    API version for it. So without that file the rules are the newer ones if a layer names a mixin. If that may be wrong
    there is a warning.
    """
    configured = next((document for document in documents if document.kind is Kind.TREE), None)
    if configured is not None:
        return Dialect(configured.data["dialect"])
    foreign = [document for document in documents if document.foreign]
    if not foreign or not all(document.api_version.startswith(_FIRST_GROUPS) for document in foreign):
        return Dialect.CURRENT
    layers = [document for document in documents if document.kind is Kind.OVERLAY]
    mixins = {document.data["metadata"]["name"] for document in foreign if document.kind is Kind.MIXIN}
    named = mixins.intersection(name for layer in layers for name in layer.data["spec"].get("mixins") or ())
    dialect = Dialect.CURRENT if named else Dialect.FIRST
    if layers and (mixins or not any(layer.file.name == BASE_FILE for layer in layers)):
        top = str(layers[0].file.path)[: -len(layers[0].file.name) - 1]
        why = f"a layer names the mixin {min(named)!r}" if named else "its API version is that of upstream 0.11"
        how = "united" if named else "replaced by those of the later layer"
        warnings.append(
            f"{top}: merged by the rules {dialect.value!r}, because {why}: nested values and dependencies are {how}. "
            f"State it in {top}/tree.yaml: kind {Kind.TREE.value}, dialect {dialect.value}."
        )
    return dialect


def _widened(known: Dimension, more: Dimension) -> Dimension:
    return Dimension(
        name=known.name,
        values=known.values | more.values,
        aliases={**known.aliases, **more.aliases},
        number=known.number or more.number,
        advisory=known.advisory or more.advisory,
        meant={**known.meant, **more.meant},
        unsuggested=known.unsuggested | more.unsuggested,
    )


def _foreign_values(documents: Iterable[Document]) -> dict[str, set[str]]:
    """Return the values that overlays of upstream trees use. There a value is registered by its use."""
    used: dict[str, set[str]] = {}
    for document in documents:
        criteria = (document.data.get("spec") or {}).get("criteria") if document.kind is Kind.OVERLAY else None
        if document.foreign and isinstance(criteria, dict):
            for name, value in criteria.items():
                if isinstance(value, str) and value.strip() and value.strip().lower() != ANY:
                    used.setdefault(name, set()).add(value.strip().lower())
    return used


def _stated_dimensions(documents: Iterable[Document]) -> set[str]:
    """Return the dimensions in the criteria of any layer."""
    specs = [document.data["spec"] for document in documents if document.kind is Kind.OVERLAY]
    return {str(name) for spec in specs if isinstance(spec.get("criteria"), dict) for name in spec["criteria"]}


def _detection(document: Document, problems: list[BringupError]) -> list[DetectionRule]:
    rules = []
    for index, data in enumerate(document.data.get("detection") or ()):
        unless = data.get("unless") or ()
        try:
            for pattern in (data["pattern"], *(entry["pattern"] for entry in unless)):
                re.compile(pattern)
        except re.error as error:
            reason = f"the pattern is not a regular expression: {error}."
            problems.append(document.problem(("detection", index, "pattern"), reason))
            continue
        rules.append(DetectionRule(**{**data, "unless": tuple(Contradiction(**entry) for entry in unless)}))
    return rules


def _check_os_images(document: Document, problems: list[BringupError]) -> None:
    for index, data in enumerate(document.data.get("osImages") or ()):
        try:
            re.compile(data["pattern"] + "|").match("").expand(data.get("version") or "")  # type: ignore[union-attr]
        except (re.error, IndexError) as error:
            reason = f"the pattern and its version do not fit together: {error}."
            problems.append(document.problem(("osImages", index, "pattern"), reason))


def _vocabulary(
    documents: Sequence[Document],
    kinds: Collection[Accelerator],
    dialect: Dialect,
    problems: list[BringupError],
) -> Vocabulary:
    """Return the vocabulary of all documents. In the first dialect some aliases have another meaning."""
    dimensions: dict[str, Dimension] = {}
    query_keys: dict[str, str] = {}
    legacy: dict[str, Mapping[str, str]] = {}
    rules: list[DetectionRule] = []
    for document in documents:
        if document.kind is Kind.VOCABULARY:
            for name, data in document.data["dimensions"].items():
                more = decode.dimension(name, data or {})
                dimensions[name] = _widened(dimensions[name], more) if name in dimensions else more
            query_keys.update(document.data.get("queryKeys") or {})
            legacy.update(document.data.get("legacyAliases") or {})
            # Rules of a later directory are tried first.
            rules = _detection(document, problems) + rules
            _check_os_images(document, problems)
    for kind in kinds:
        known = Dimension(
            name=_ACCELERATOR, values=frozenset((kind.name,)), aliases=dict.fromkeys(kind.aliases, kind.name)
        )
        dimensions[_ACCELERATOR] = _widened(dimensions[_ACCELERATOR], known)
        rules.append(
            DetectionRule(dimension=_ACCELERATOR, value=kind.name, fact="gpu_product", pattern=kind.product_pattern)
        )
    for name, values in _foreign_values(documents).items():
        if name in dimensions and not dimensions[name].number:
            new = frozenset(values) - set(dimensions[name].aliases)
            dimensions[name] = _widened(dimensions[name], Dimension(name=name, values=new))
    if dialect is Dialect.FIRST:
        for name, aliases in legacy.items():
            dimensions[name] = _widened(dimensions[name], Dimension(name=name, aliases=aliases))
        # That dialect had no advisory dimensions: the number of nodes of a layer was matched exactly.
        configured = _stated_dimensions(documents)
        dimensions = {
            name: replace(known, advisory=known.advisory and name not in configured)
            for name, known in dimensions.items()
        }
    node_only = {kind.name: f"accelerators/{kind.name}.yaml" for kind in kinds if not kind.nvlink_rack}
    return Vocabulary(dimensions, query_keys, tuple(rules), node_only)


def _layer_criteria(document: Document, vocabulary: Vocabulary, reported: list[str]) -> Criteria | None:
    data = document.data["spec"].get("criteria")
    if data is None:
        return None
    if not isinstance(data, dict):
        raise document.problem(("spec", "criteria"), "spec.criteria must be a mapping.")
    try:
        criteria = parse_criteria(data, vocabulary)
    except ProblemsError as error:
        problems = tuple(
            document.problem(("spec", "criteria", problem.subject.removeprefix("criteria ")), str(problem), "")
            for problem in error.problems
        )
        raise ProblemsError(str(document.file.path), problems) from None
    for name in (name for name, value in data.items() if value is None):
        at = document.at(("spec", "criteria", name))
        reported.append(f"{at}: {name} has no value, so the layer is for every one. Write {ANY} if that is meant.")
    alone = {name: value for name, value in data.items() if value not in (None, "", ANY)}
    if alone and not criteria.stated and document.foreign:
        words = ", ".join(f"{name}: {value}" for name, value in alone.items())
        reported.append(
            f"{document.at(('spec', 'criteria'))}: {words} means any in this tree, so the layer is for everything."
        )
    kept = {name: value for name, value in criteria.stated if not vocabulary.dimensions[name].advisory}
    return make_criteria(kept)


def _take_layer(loading: _Loading, document: Document, vocabulary: Vocabulary, dialect: Dialect) -> None:
    name = BASE if document.file.name == BASE_FILE else document.data["metadata"]["name"]
    layer = Layer(
        name=name,
        file=str(document.file.path),
        base=document.data["spec"].get("base") or "",
        criteria=_layer_criteria(document, vocabulary, loading.warnings),
        regardless_of=tuple(document.data["spec"].get("regardlessOf") or ()),
        mixins=tuple(document.data["spec"].get("mixins") or ()),
        fragment=decode.fragment(document.data["spec"]),
        profile=decode.profile(document.data["spec"].get("profile")),
        dialect=dialect,
        foreign=document.foreign,
        root=document.file.root,
        refused=document.refusals(),
    )
    if _is_new(loading, document, "overlay", name):
        loading.layers[name] = layer


def _is_new(loading: _Loading, document: Document, what: str, name: str) -> bool:
    """Record a name. If its directory has it already, report a problem and return False. A later directory wins."""
    known = loading.documents.get(f"{what} {name}")
    if known is not None and known.file.root == document.file.root:
        reason = f"the {what} {name!r} is also defined in {known.file.path}."
        loading.problems.append(document.problem(("metadata", "name"), reason, "Names are unique in a directory."))
        return False
    loading.documents[f"{what} {name}"] = document
    return True


def _take_mixin(loading: _Loading, document: Document, dialect: Dialect) -> None:
    name = document.data["metadata"]["name"]
    if _is_new(loading, document, "mixin", name):
        fragment = decode.fragment(document.data["spec"])
        loading.mixins[name] = Mixin(
            name=name,
            file=str(document.file.path),
            fragment=fragment,
            dialect=dialect,
            foreign=document.foreign,
            root=document.file.root,
            refused=document.refusals(),
        )


def _take_registry(loading: _Loading, document: Document) -> None:
    loading.documents[f"registry {document.file.root}"] = document
    for index, data in enumerate(document.data["components"]):
        if data.get("helm") and data.get("kustomize"):
            reason = f"the component {data['name']} has both helm and kustomize."
            loading.problems.append(document.problem(("components", index), reason, "Keep one of the two."))
        known = loading.registry.get(data["name"])
        first = loading.documents.get(f"component {data['name']}")
        if known is not None and first is not None and first.file.root == document.file.root:
            reason = f"the component {data['name']!r} is also defined in {first.file.path}."
            hint = "Names are unique in a directory."
            loading.problems.append(document.problem(("components", index, "name"), reason, hint))
        loading.documents[f"component {data['name']}"] = document
        refused = document.refusals("components", index)
        loading.registry[data["name"]] = Component(
            name=data["name"], file=str(document.file.path), data=data, refused=refused
        )


def _take(loading: _Loading, document: Document, vocabulary: Vocabulary, dialect: Dialect) -> None:
    try:
        if document.kind is Kind.OVERLAY:
            _take_layer(loading, document, vocabulary, dialect)
        elif document.kind is Kind.MIXIN:
            _take_mixin(loading, document, dialect)
        elif document.kind is Kind.REGISTRY:
            _take_registry(loading, document)
        elif document.kind is Kind.CHECKS:
            for data in document.data["validators"]:
                loading.checks[data["name"]] = Check(
                    name=data["name"], phase=data["phase"], file=str(document.file.path), data=data
                )
    except ProblemsError as error:
        loading.problems.extend(error.problems)
    except InputError as error:
        loading.problems.append(error)


def _read(loading: _Loading, trees: list[dict[str, TreeFile]]) -> list[list[Document]]:
    """Read the documents of each tree. A document that a later tree replaces at the same path is not read."""
    united = ("registry.yaml", "criteria.yaml", "validators/catalog.yaml", "tree.yaml")
    read = []
    for index, tree in enumerate(trees):
        replaced = {name for later in trees[index + 1 :] for name in later if name not in united}
        found = []
        for name, file in tree.items():
            if is_document(name) and name not in replaced:
                known = len(loading.problems)
                ours = file.path.is_relative_to(_OWN_TREE)
                document = read_document(file, loading.problems, loading.warnings, ours=ours)
                found += [document] if document is not None else []
                if document is not None or len(loading.problems) > known:
                    loading.read.add(file.path)
            elif name in replaced:
                loading.read.add(file.path)
        read.append(found)
    return read


def _shipped_vocabulary(loading: _Loading, trees: list[dict[str, TreeFile]]) -> list[Document]:
    """Return our own vocabulary, for a catalogue without our own tree."""
    path = RECIPES / "criteria.yaml"
    if any(tree.get("criteria.yaml", TreeFile("", Path(), 0)).path == path.resolve() for tree in trees):
        return []
    document = read_document(TreeFile("criteria.yaml", path, -1), loading.problems, loading.warnings, ours=True)
    return [document] if document is not None else []


def load_catalogue(directories: Sequence[Path]) -> Catalogue:
    """Return the catalogue of several directories, in which later ones take precedence.

    Files of a later directory replace those at the same path. Its overlays and mixins replace those of the same name.
    Registry entries, checks and criteria values are united by name.

    Raises:
        ProblemsError: everything that is wrong, each with file, line and the nearest valid name.
        NotFoundError: a directory does not exist.
    """
    loading = _Loading()
    trees = tree_files(directories, loading.problems)
    read = _read(loading, trees)
    dialects = [dialect_of(documents, loading.warnings) for documents in read]
    base = next((i for i, tree in reversed(list(enumerate(trees))) if BASE_FILE in tree), 0)
    root_dialect = dialects[base] if dialects else Dialect.CURRENT
    all_documents = [document for documents in read for document in documents]
    vocabulary = _vocabulary(
        [*_shipped_vocabulary(loading, trees), *all_documents],
        load_accelerators(path.expanduser() / DIRECTORY for path in directories).values(),
        root_dialect,
        loading.problems,
    )
    for documents, dialect in zip(read, dialects, strict=True):
        for document in documents:
            _take(loading, document, vocabulary, dialect)
    loading.layers.setdefault(BASE, Layer(name=BASE, file=""))
    catalogue = Catalogue(
        layers=loading.layers,
        mixins=loading.mixins,
        registry=loading.registry,
        vocabulary=vocabulary,
        checks=loading.checks,
        files={name: file.path for tree in trees for name, file in tree.items()},
        dialect=root_dialect,
    )
    loading.warnings += unread_warnings(catalogue, _private(directories, trees), frozenset(loading.read))
    private = [found for path, found in zip(directories, read, strict=True) if not _is_own(path)]
    loading.warnings += unnamed_dimensions(chain(*private), ORDER, _stated_dimensions(all_documents))
    return _verified(catalogue, loading, directories)


def _private(
    directories: Sequence[Path], trees: Sequence[dict[str, TreeFile]]
) -> Iterator[tuple[Path, dict[str, TreeFile]]]:
    """Yield the directories other than the collection's own, with their files. Our own is checked by its tests."""
    for directory, tree in zip(directories, trees, strict=True):
        if not _is_own(directory):
            yield directory, tree


def _is_own(directory: Path) -> bool:
    return directory.expanduser().resolve() == _OWN_TREE


def _verified(catalogue: Catalogue, loading: _Loading, directories: Sequence[Path]) -> Catalogue:
    warnings = verify(catalogue, loading.documents, loading.problems)
    if not loading.problems:
        private = {index for index, path in enumerate(directories) if not _is_own(path)}
        # Several layers may have one reason, and one may have been reported already.
        found = {
            str(error): (layer, error)
            for layer, error in unresolvable(catalogue, private)
            if not any(text.startswith(f"{error.subject}: ") for text in (*loading.warnings, *warnings))
        }
        loading.problems += [error for layer, error in found.values() if not layer.foreign]
        warnings = (*warnings, *(text for text, (layer, _error) in found.items() if layer.foreign))
    if loading.problems:
        subject = ", ".join(str(directory) for directory in directories)
        raise ProblemsError(f"recipe data {subject}", tuple(sorted(loading.problems, key=_line_order)))
    return replace(catalogue, warnings=(*loading.warnings, *warnings))


def _line_order(problem: BringupError) -> tuple[str, int, str]:
    file, _colon, line = problem.subject.rpartition(":")
    return (file, int(line), problem.reason) if line.isdecimal() else (problem.subject, 0, problem.reason)
