# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can be rehearsed from start to end, beside a bring-up."""

from __future__ import annotations

from pathlib import Path

from ...outcome.errors import NotFoundError
from ...runtime.recipe_files import COLLECTION_ROOT
from ...runtime.strict import nearest

LIST = "list"
SITE = "site"
_ALONE = {
    "converge": "a simulated host has no package repositories; molecule does it with containers (docs/converge.md)",
    "rollback": "it needs two recipes that passed; keep a rehearsal (KEEP=1) and run site twice on its inventory",
    "rma": "keep a rehearsal with a fault (KEEP=1 FAULTS=gpu-missing) and run it on its inventory",
}


def known_plays(playbooks: Path = COLLECTION_ROOT / "playbooks" / "rehearsal") -> dict[str, str]:
    """Return every verb that can be rehearsed, with what it does."""
    found = {SITE: "Brings a site up, gate by gate (the default)."}
    for path in sorted(playbooks.glob("*.yml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[path.stem] = lines[lines.index("---") + 1].removeprefix("# ")
    return found


def plays_table() -> str:
    """Return what can be rehearsed as text for a terminal."""
    rows = known_plays()
    width = max(map(len, rows))
    return "\n".join([f"{name.ljust(width)}  {text}" for name, text in rows.items()] + ["", "PLAY=<name>"])


def refuse_unknown_play(name: str) -> None:
    """Raise NotFoundError for what cannot be rehearsed, with what can."""
    known = known_plays()
    if name in known:
        return
    if name in _ALONE:
        raise NotFoundError(f"PLAY {name!r}", f"cannot be rehearsed from start to end: {_ALONE[name]}.")
    near = f"did you mean {nearest(name, known)[0]!r}? " if nearest(name, known) else ""
    raise NotFoundError(f"PLAY {name!r}", "is nothing that can be rehearsed.", f"{near}known: {', '.join(known)}")
