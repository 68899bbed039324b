# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The proof of a wave: a run of its own over gate nodes, of the nodes of the wave alone, kept below the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..outcome.decisions import Quarantine
from ..outcome.model import Status
from ..outcome.wording import first_of
from ..runtime.clock import now_utc
from ..runtime.files import make_dirs, write_atomic
from ..runtime.run_dir import SETTINGS
from ..verdict.run import new_run, with_site
from .run import Run

GATE = "nodes"
_SHOWN = 3


def start_verification(run: Run, nodes: Sequence[str], wave: int) -> Path:
    """Make the run of a wave and return its directory: the same site, settings and decisions of people, fewer hosts.

    The other hosts are set aside and not taken away, because plans of the site name them. So the peers of a node are
    those of its wave, which were changed alike; nothing of a node that was not changed yet is compared with them.
    """
    path = run.path / "waves" / f"{wave:03}"
    make_dirs(path)
    chosen = set(nodes)
    others = [host.name for host in run.site.in_scope if host.name not in chosen]
    aside = tuple(
        Quarantine(node=name, reason="not in this wave", ticket=f"wave {wave}", who="playbook waves") for name in others
    )
    site = replace(
        run.site, gates=(GATE,), from_gate="", quarantine=(*run.site.quarantine, *aside), minimum_nodes=0
    )  # fmt: skip
    proof, record = Run(path), run.record
    fresh = new_run(f"{record.run_id}-wave-{wave:03}", site.name, now_utc(), (GATE,), rehearsal=record.rehearsal)
    fresh = replace(fresh, versions=record.versions, command=record.command)
    settings = run.path / SETTINGS
    if settings.is_file():
        write_atomic(path / SETTINGS, settings.read_text(encoding="utf-8"))
    proof.save_hardware(run.hardware)
    proof.save_site(site)
    proof.save_record(with_site(fresh, site))
    return path


def problems_found(path: Path, nodes: Sequence[str]) -> Mapping[str, str]:
    """Return by node what the run of its wave holds against it, empty for a node that passed.

    What holds the gate and is about no single node of the wave is held against all of them.
    """
    verdict = Run(path).record.gate(GATE)
    # A gate that declares no check opens the next one and proves nothing.
    if verdict.status is Status.PASSED:
        return dict.fromkeys(nodes, "")
    if not verdict.blocking:
        return dict.fromkeys(nodes, f"gate {GATE} is {verdict.status.value}: {verdict.message}")
    against: dict[str, list[str]] = {node: [] for node in nodes}
    for entry in verdict.blocking:
        named = {subject.node or subject.name for subject in entry.subjects} | {entry.subject}
        about = [node for node in nodes if node in named] or list(nodes)
        word = "" if entry.status is Status.FAILED else f" ({entry.status.value})"
        for node in about:
            against[node].append(f"{entry.check}{word}: {entry.summary or entry.cause}")
    return {node: first_of(texts, _SHOWN, "; ") for node, texts in against.items()}
