# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every query that a catalogue supports.

A layer that honours a criterion in one query does so in every larger one. So the supported queries are exactly the
unions of a few small ones, the parts, whose criteria do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .criteria import ANY, Criteria, make_criteria, order_key
from .model import Catalogue, Layer
from .resolve import chain
from .support import RACK

_BASE = "base"


def _regardless(layer: Layer, catalogue: Catalogue) -> frozenset[str]:
    """Return the dimensions whose value does not matter to a layer, its ancestors or the base."""
    lineage = (catalogue.layers[_BASE], *chain(layer, catalogue))
    return frozenset(name for each in lineage for name in each.regardless_of)


def parts(catalogue: Catalogue) -> tuple[Criteria, ...]:
    """Return the smallest supported queries, in a stable order. Every supported query is a union of some of these."""
    found: set[Criteria] = set()
    for layer in catalogue.layers.values():
        if layer.criteria is None and layer.name != _BASE:
            continue
        configured = layer.criteria.to_dict() if layer.criteria is not None else {}
        found.add(make_criteria(configured))
        for ancestor in chain(layer, catalogue):
            inherited = ancestor.criteria.to_dict() if ancestor.criteria is not None else {}
            found.update(_with_each(configured, {name: (value,) for name, value in inherited.items()}))
        free = {name: catalogue.vocabulary.dimensions[name].values for name in _regardless(layer, catalogue)}
        found.update(_with_each(configured, {name: tuple(values) for name, values in free.items()}))
    advisory = {name for name, dimension in catalogue.vocabulary.dimensions.items() if dimension.advisory}
    usable = [part for part in found if part.stated and not advisory.intersection(part.to_dict())]
    return tuple(sorted(usable, key=lambda part: (part.specificity, part.stated)))


def _with_each(configured: Mapping[str, str], more: Mapping[str, tuple[str, ...]]) -> Iterator[Criteria]:
    for name, values in more.items():
        if name not in configured:
            yield from (make_criteria({**configured, name: value}) for value in values if value != ANY)


@dataclass(frozen=True, slots=True)
class Lattice:
    """All supported queries, each as a set of bits: one bit for one value of one dimension.

    Bits, because a catalogue with a dozen platforms supports a hundred thousand queries.
    """

    items: tuple[tuple[str, str], ...]
    members: frozenset[int]

    def __len__(self) -> int:
        """Return the number of supported queries."""
        return len(self.members)

    def __iter__(self) -> Iterator[Criteria]:
        """Yield them in a stable order."""
        for member in sorted(self.members):
            yield self.criteria(member)

    def criteria(self, member: int) -> Criteria:
        """Return one of them as criteria."""
        return Criteria(tuple(item for place, item in enumerate(self.items) if member >> place & 1))

    def places(self, dimension: str) -> dict[str, int]:
        """Return the bit of every value of a dimension."""
        return {value: 1 << place for place, (name, value) in enumerate(self.items) if name == dimension}

    def mask(self, criteria: Criteria) -> int:
        """Return criteria as bits. 0 if no supported query states one of them."""
        places = {item: place for place, item in enumerate(self.items)}
        if not all(item in places for item in criteria.stated):
            return 0
        return sum(1 << places[item] for item in criteria.stated)

    def __contains__(self, criteria: Criteria) -> bool:
        """Tell whether a query is supported."""
        return self.mask(criteria) in self.members


def _unions(parts_of_group: Iterable[int], rows: Iterable[int], start: int) -> set[int]:
    """Return every union of parts that takes at most one bit of each row, and of `start`."""
    known = set(parts_of_group)
    single = 0
    for part in known:
        single |= part if part.bit_count() == 1 else 0
    members = {start}
    for row in rows:
        free = [1 << place for place in range(row.bit_length()) if (single & row) >> place & 1]
        # A dimension of the start has its value already.
        if not start & row:
            members |= {member | bit for member in members for bit in free}
    for part in sorted(known):
        if part & ~single:
            mine = [row for row in rows if row & part]
            others = sum(mine) & ~part
            members |= {member | part for member in members if not member & others}
    return members


def lattice(catalogue: Catalogue) -> Lattice:
    """Return every supported query of a catalogue.

    It goes service by service, because parts of two services never combine. This keeps it below a second.
    """
    known = parts(catalogue)
    # In the order in which criteria are printed, so that bits become criteria without sorting.
    items = tuple(sorted({item for part in known for item in part.stated}, key=lambda i: (order_key(i[0]), i[1])))
    bit = {item: 1 << place for place, item in enumerate(items)}
    masks = [sum(bit[item] for item in part.stated) for part in known]
    rows = [sum(bit[item] for item in items if item[0] == name) for name in dict(items)]
    services = sum(bit[item] for item in items if item[0] == "service")
    members = _unions([mask for mask in masks if not mask & services], rows, 0)
    for item in items:
        service = bit[item] if item[0] == "service" else 0
        if not service:
            continue
        near = [mask for mask in masks if not mask & services & ~service]
        if service in near:
            members |= _unions([mask & ~service for mask in near if mask != service], rows, service)
        else:
            members |= {member for member in _unions(near, rows, 0) if member & service}
    rack = bit.get(RACK, 0)
    node = sum(bit.get(("accelerator", kind), 0) for kind in catalogue.vocabulary.node_only)
    return Lattice(items, frozenset(member for member in members if member and not (member & rack and member & node)))
