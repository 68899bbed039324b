# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How an operator selects what it takes up: the labels that an object of ours needs to be among it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...outcome.errors import InputError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What objects of ours must be to be taken up: their labels, those of their namespace, and, if only the owner's
    own namespace is looked at, that namespace."""

    labels: dict[str, str] = field(default_factory=dict)
    namespace_labels: dict[str, str] = field(default_factory=dict)
    only_namespace: str = ""


def way_into(owner: Json, what: str) -> Way:
    """Return how an object is taken up by the selectors `<what>Selector` and `<what>NamespaceSelector` of an owner.

    Raises:
        InputError: it selects nothing, or in a way that labels alone cannot meet.
    """
    spec, metadata = owner.get("spec") or {}, owner["metadata"]
    subject = f"{owner.get('kind') or 'object'} {metadata['namespace']}/{metadata['name']}"
    selector = spec.get(f"{what}Selector")
    if selector is None:
        raise InputError(subject, f"it has no {what}Selector, so it takes up none.", f"set spec.{what}Selector to {{}}")
    labels = labels_for(selector, f"{subject}: {what}Selector")
    spaces = spec.get(f"{what}NamespaceSelector")
    if spaces is None:
        return Way(labels=labels, only_namespace=metadata["namespace"])
    return Way(labels=labels, namespace_labels=labels_for(spaces, f"{subject}: {what}NamespaceSelector"))


def labels_for(selector: Mapping[str, Any], subject: str) -> dict[str, str]:
    """Return labels that a label selector matches.

    Raises:
        InputError: it contradicts itself or has an operator that is not known.
    """
    found: dict[str, str] = dict(selector.get("matchLabels") or {})
    for entry in selector.get("matchExpressions") or []:
        key, operator, values = entry.get("key", ""), entry.get("operator"), entry.get("values") or []
        # What ours does not have, and what nobody calls so, is met already.
        if operator == "DoesNotExist" or (operator == "NotIn" and found.get(key) not in values):
            continue
        if operator == "Exists":
            found.setdefault(key, "gpufleet")
        elif operator == "In" and values and found.get(key, values[0]) in values:
            found.setdefault(key, values[0])
        else:
            raise InputError(subject, f"cannot be met by labels: {entry}.", "select test rules of gpufleet, too")
    return found
