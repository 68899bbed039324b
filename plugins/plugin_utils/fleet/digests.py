# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What GPUs of one cohort computed: whose digest is not that of most is a hard fact about its node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..outcome.wording import first_of
from ..store.service_model import NodeResult
from ..verdict.digest_majority import LEAST, Majority, majority
from ..verdict.peers import PeerLimits, allowed
from .series import Record

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """What the newest digests of one test and cohort say; `blame`: why nobody is named though they differ."""

    found: Majority[tuple[str, str], str]
    blame: str = ""

    def wrong(self, result: NodeResult) -> tuple[str, ...]:
        """Return the parts of a result that computed something else than most do."""
        if self.found.split or self.found.total < LEAST:
            return ()
        return tuple(part for part, digest in result.digests.items() if digest != self.found.usual)


def digests(records: Mapping[Key, Record], limits: PeerLimits) -> dict[Key, Digests]:
    """Return by test and cohort what digests say."""
    members: dict[Key, dict[tuple[str, str], str]] = {}
    for record in records.values():
        if record.known and record.known[-1].cohort:
            newest = record.known[-1]
            of_cohort = members.setdefault((record.test, newest.cohort), {})
            of_cohort |= {(record.node, part): digest for part, digest in newest.digests.items()}
    made = {key: majority(found) for key, found in members.items()}
    return {
        key: Digests(found=found, blame=_blame(key, found, len({node for node, _part in members[key]}), limits))
        for key, found in made.items()
        if found is not None
    }


def _blame(key: Key, found: Majority[tuple[str, str], str], nodes: int, limits: PeerLimits) -> str:
    test, cohort = key
    if found.split:
        said = f"{found.agreeing} of {found.total} GPUs computed the same, and no digest is that of most"
        return (
            f"{test}: digests of cohort {cohort} differ and nobody can be named: {said}; look at driver and libraries"
        )
    wrong = sorted({node for node, _part in found.minority})
    if len(wrong) > allowed(nodes, limits):
        said = f"{len(wrong)} of {nodes} nodes ({first_of(wrong, 4)}) differ, more than {limits.share:.0%}"
        return f"{test}: digests of cohort {cohort}: {said}; look at driver and libraries before any of them"
    return ""
