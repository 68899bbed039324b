# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The limits of a run that are not the release's: whoever reads "accepted" has to see by what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..check.comparison.specs import comparisons_of
from ..check.kit.saved_settings import saved_entries
from ..check.kit.settings import Setting, settings_in
from ..check.kit.settings_layers import release_settings
from ..check.registry import all_checks, all_settings
from ..outcome.gates import GATE_IDS
from ..site.model import Site
from .run import Run

_RELEASE, _SHOWN = ["release"], 60


def own_limits(run: Run) -> tuple[str, ...]:
    """Return every setting that gates in scope are judged by and that is not as the release ships it, with both values.

    Raises:
        InputError: settings.json cannot be read.
    """
    saved = saved_entries(run.path)
    return tuple(line for key, known in _judged_by(run.site).items() for line in _lines(key, known, saved.get(key, {})))


def _judged_by(site: Site) -> dict[str, dict[str, Setting]]:
    """Return the settings by which gates in scope are judged, by gate or check id and name."""
    gates = {gate: gate for gate in GATE_IDS}
    gates |= {check.spec.id: check.spec.gate_at(site) for check in all_checks(site.check_dirs)}
    gates |= {entry.spec.id: gate for gate in GATE_IDS for entry in comparisons_of(gate)}
    return {
        key: {name: entry for kind in kinds for name, entry in settings_in(kind).items() if entry.use == "judge"}
        for key, kinds in all_settings(site.check_dirs).items()
        if gates.get(key) in site.gates
    }


def _lines(key: str, known: Mapping[str, Setting], saved: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    shipped = release_settings().get(key, {})
    for name in known.keys() & saved.keys() & shipped.keys():
        # What only the release states was its limit then, whatever it is in this one.
        if saved[name]["sources"] != _RELEASE:
            yield from _differing(f"{key}.{name}", saved[name]["value"], shipped[name])


def _differing(place: str, stated: Any, shipped: Any) -> Iterator[str]:
    if isinstance(stated, Mapping) and isinstance(shipped, Mapping):
        for name in sorted(stated):
            yield from _differing(f"{place}.{name}", stated[name], shipped.get(name))
    elif shipped is not None and stated != shipped:
        # Where the release has no limit, any is a stricter one; a list of what is ignored is empty there.
        yield f"{place} {_short(stated)} (release: {_short(shipped) or 'none'})"


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
