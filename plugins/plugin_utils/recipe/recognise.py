# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which kind of document a file is: told by what it says, however that is spelled, and never by its first bytes.

What was meant as a recipe document and is none is an error. What is something else is named to the user as not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..outcome.errors import InputError
from .dialect import UPSTREAM_APIS
from .nearest import unknown_hint
from .schema import OWN_API, Kind, is_foreign
from .yaml_text import Path

_KINDS = {kind.value: kind for kind in Kind}
_OWN_GROUP = OWN_API.partition("/")[0] + "/"
_KNOWN_APIS = (OWN_API, *dict.fromkeys(UPSTREAM_APIS.values()))
# Other documents of upstream's tool, which people keep beside a tree: none of them adds anything to a recipe.
_OTHER_KINDS = frozenset(
    ("AICRConfig", "BundleProvenance", "ComponentUpgrades", "KWOKNodeProfile", "Recipe", "RecipeCriteria",
     "RecipeResult", "Snapshot")
)  # fmt: skip
# Kinds of Kubernetes share letters with ours; these many in a hundred are no chance.
_LIKE = 0.8
# Where only these kinds are looked for, so that anything else there is a mistake.
_EXPECTED: tuple[tuple[str, Kind], ...] = (
    ("overlays/", Kind.OVERLAY),
    ("mixins/", Kind.MIXIN),
    ("validators/", Kind.CHECKS),
)
_EXPECTED_FILES = {"registry": Kind.REGISTRY, "criteria": Kind.VOCABULARY, "tree": Kind.TREE}
# The quick look at the files of our own tree, whose form our tests hold, and at what is not YAML at all.
_PLAIN = re.compile(rf"^kind:[ \t]*(?:{'|'.join(_KINDS)})[ \t]*$", re.MULTILINE)
_SPEAKS_OF_US = re.compile(rf"{'|'.join(_KINDS)}|{re.escape(_OWN_GROUP)}|\baicr\.(?:nvidia\.com|run)/")


def expected_kind(name: str) -> Kind | None:
    """Return the kind that a place in a tree is for; None where anything may lie."""
    stem, _dot, _ending = name.rpartition(".")
    if "/" not in name:
        return _EXPECTED_FILES.get(stem.casefold())
    return next((kind for place, kind in _EXPECTED if name.startswith(place)), None)


def plainly_none(name: str, text: str) -> bool:
    """Tell, without decoding it, that a file of our own tree is no document."""
    return expected_kind(name) is None and not _PLAIN.search(text)


def speaks_of_us(text: str) -> bool:
    """Tell whether a text that is not YAML names a kind or an API of ours: then it was meant as a document."""
    return bool(_SPEAKS_OF_US.search(text))


def _word(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value.strip() if isinstance(value, str) else "" if value is None else str(value)


def _meant(expected: Kind | None, kind: str, api: str) -> bool:
    """Tell whether somebody meant a recipe document: by its place, its API, or its kind but for a letter or two."""
    if expected is not None or kind in _KINDS:
        return True
    if kind in _OTHER_KINDS:
        return False
    from difflib import get_close_matches

    folded = [known.casefold() for known in _KINDS]
    return api.startswith(_OWN_GROUP) or bool(get_close_matches(kind.casefold(), folded, 1, _LIKE))


def recognised(name: str, data: Any, at: Callable[[Path], str]) -> tuple[Kind, str] | None:
    """Return kind and API version of a decoded file; None if it was not meant as a recipe document.

    Args:
        name: the file's path inside its tree.
        data: its plain data.
        at: returns `file:line` of a value, for errors.

    Raises:
        InputError: it was meant as one, and says so wrongly.
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
