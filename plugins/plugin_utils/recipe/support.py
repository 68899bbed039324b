# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which criteria of a query the layers of a catalogue honour.

Resolution itself falls back to less specific layers without an error, as upstream does.
"""

from __future__ import annotations

from .criteria import Criteria, Vocabulary, make_criteria
from .model import Catalogue
from .resolve import applied_layers

RACK = ("nvlink_domain", "rack")


def not_honoured(criteria: Criteria, catalogue: Catalogue) -> tuple[tuple[str, str], ...]:
    """Return the stated criteria that no applied layer honours although one would have to.

    Advisory criteria need no layer, and neither do dimensions whose value does not matter to an applied layer. If
    nvlink_domain=rack contradicts the accelerator it is returned, whatever layers there are.
    """
    layers = applied_layers(criteria, catalogue)
    honoured = {item for layer in layers if layer.criteria is not None for item in layer.criteria.stated}
    dimensions = catalogue.vocabulary.dimensions
    free = {name for name, _value in criteria.stated if dimensions[name].advisory}
    free.update(name for layer in layers for name in layer.regardless_of)
    lost = {RACK} if impossible(criteria, catalogue.vocabulary) else set()
    return tuple(item for item in criteria.stated if item in lost or (item not in honoured and item[0] not in free))


def impossible(criteria: Criteria, vocabulary: Vocabulary) -> str:
    """Return why no hardware has these criteria, with the sources. Empty if there may be some."""
    kind = criteria.get("accelerator")
    if RACK not in criteria.stated or kind not in vocabulary.node_only:
        return ""
    return (
        f"accelerator={kind} and nvlink_domain=rack exclude each other: {vocabulary.node_only[kind]} says that NVLink "
        f"of {kind} ends at the node (no nvlink_rack), and nvlink_domain=rack asks for hosts joined by NVLink."
    )


def supported_combinations(catalogue: Catalogue) -> tuple[Criteria, ...]:
    """Return every combination that a layer of the catalogue is for, each once, in a stable order."""
    found = {layer.criteria for layer in catalogue.layers.values() if layer.criteria is not None}
    usable = {criteria for criteria in found if criteria.stated and not not_honoured(criteria, catalogue)}
    return tuple(sorted(usable, key=lambda criteria: (criteria.specificity, criteria.stated)))


def relaxed(criteria: Criteria, catalogue: Catalogue, detected: frozenset[str]) -> Criteria:
    """Return criteria without detected ones that no layer honours. Stated ones are kept."""
    lost = {name for name, _value in not_honoured(criteria, catalogue)} & detected
    return make_criteria({name: value for name, value in criteria.stated if name not in lost})
