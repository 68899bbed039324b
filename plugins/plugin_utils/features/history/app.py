# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Maintenance of a history: the request is checked and carried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...outcome.errors import InputError, NotFoundError, UnavailableError
from ...store.care import back_up, problems_of, thin
from ...store.database import VARIABLE, Place, place_of
from ...store.export import export, sites_with_runs
from ...store.imported import ImportPlan, import_claims, read_claims
from ...store.service import ServiceStore, open_service

_DAY_S = 86400
# The classification of nodes looks at results of some weeks.
_LEAST_DAYS = 7
Rows = dict[str, int]


def care_for(options: Mapping[str, Any], now_s: float, now: str, *, write: bool) -> tuple[bool, Rows]:
    """Carry out the requested state; return whether anything changed, and how many rows were affected.

    Raises:
        BringupError: something is missing or wrong, with what to do.
    """
    if not options["store"]:
        raise InputError("history", "no history is named.", f"set gpufleet_store or {VARIABLE}")
    place, state = place_of(options["store"]), options["state"]
    if state != "imported" and isinstance(place, Path) and not place.is_file():
        raise NotFoundError(f"history {place}", "no such file.", "set gpufleet_store to the history that is meant")
    if state == "backed_up":
        dest = Path(_given(options, "dest"))
        return write, {"bytes": back_up(place, dest)} if write else {}
    acts: Mapping[str, Callable[[], tuple[bool, Rows]]] = {
        "imported": lambda: _imported(options, place, now_s, now, write=write),
        "exported": lambda: _exported(options, open_service(place), write=write),
        "thinned": lambda: _thinned(options, open_service(place), now_s, write=write),
        "checked": lambda: _checked(open_service(place), place),
    }
    return acts[state]()


def _imported(options: Mapping[str, Any], place: Place, now_s: float, now: str, *, write: bool) -> tuple[bool, Rows]:
    source = Path(_given(options, "source"))
    plan = ImportPlan(
        site=_given(options, "site_name"),
        rehearsal=options["rehearsal"],
        source=source.name,
        tests=_names(options, "tests"),
        nodes=_names(options, "nodes"),
    )
    claims = read_claims(source, now_s)
    if not write and isinstance(place, Path) and not place.is_file():
        return bool(claims.rows), {"results": len(claims.rows)}
    number = import_claims(open_service(place), claims, plan, now, write=write)
    return bool(number), {"results": number}


def _exported(options: Mapping[str, Any], store: ServiceStore, *, write: bool) -> tuple[bool, Rows]:
    site, dest = _known_site(options, store, runs=True), Path(_given(options, "dest"))
    formats = tuple(dict.fromkeys(options["formats"]))
    if not formats:
        raise InputError("formats", "is empty, so nothing would be exported.", "give csv, parquet, or both")
    return True, export(store, site, dest, formats, rehearsal=options["rehearsal"]) if write else {}


def _thinned(options: Mapping[str, Any], store: ServiceStore, now_s: float, *, write: bool) -> tuple[bool, Rows]:
    days = float(options["keep_days"])
    if math.isnan(days) or days < _LEAST_DAYS:
        raise InputError("keep_days", f"is {days:g}; expected {_LEAST_DAYS} or more.", "keep the results of some weeks")
    site, before_s = _known_site(options, store), now_s - days * _DAY_S
    thinned = thin(store, site, rehearsal=options["rehearsal"], before_s=before_s, write=write)
    return bool(thinned.results or thinned.classes), {"results": thinned.results, "classes": thinned.classes}


def _checked(store: ServiceStore, place: Place) -> tuple[bool, Rows]:
    problems = problems_of(store)
    if problems:
        hint = "restore the last backup that is whole, or report this with the text above"
        raise UnavailableError(str(place), f"does not fit together: {'; '.join(problems)}.", hint)
    return False, {}


def _known_site(options: Mapping[str, Any], store: ServiceStore, *, runs: bool = False) -> str:
    """Return the name of the site if the history has cycles of it, or runs of gates where those count as well."""
    site, rehearsal = _given(options, "site_name"), options["rehearsal"]
    cycles, of_gates = store.sites(rehearsal=rehearsal), sites_with_runs(store, rehearsal=rehearsal)
    known = {*cycles, *(of_gates if runs else ())}
    if site in known:
        return site
    listed = (
        f"sites with cycles there: {', '.join(cycles) or 'none'}, with runs of gates: {', '.join(of_gates) or 'none'}"
    )
    no_runs = "and no run of gates " if runs else ""
    reason = f"has no cycle {no_runs}in {store.path}; {listed}."
    if known:
        hint = "set gpufleet_site_name (--site-name) to one of them"
    elif of_gates:
        hint = "nothing is to be done: what gates found is kept whole"
    elif store.sites(rehearsal=not rehearsal) or sites_with_runs(store, rehearsal=not rehearsal):
        hint = (
            "what is there is of no rehearsal: leave out gpufleet_history_rehearsal (--rehearsal)"
            if rehearsal
            else "what is there is of rehearsals: -e gpufleet_history_rehearsal=true (--rehearsal)"
        )
    else:
        hint = "nothing was recorded there yet: name another history with gpufleet_store (--store), or run a gate first"
    raise NotFoundError(f"site {site}", reason, hint)


def _names(options: Mapping[str, Any], name: str) -> dict[str, str]:
    found = {str(theirs): ours for theirs, ours in options[name].items()}
    wrong = sorted(theirs for theirs, ours in found.items() if not isinstance(ours, str) or not ours.strip())
    if wrong:
        raise InputError(name, f"gives no name to {', '.join(wrong)}.", "write each as 'theirs: ours'")
    return found


def _given(options: Mapping[str, Any], name: str) -> str:
    if not options[name]:
        raise InputError(name, f"is needed with state {options['state']} and was not given.", f"set {name}")
    return str(options[name])
