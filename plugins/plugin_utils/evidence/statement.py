# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The statement about a run: in-toto, with a predicate of our own (docs/evidence.md), made from the files of the run.

Without `full` it has no node, serial or log: names of nodes are masked in texts of people and settings.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..check.readiness.observe_snapshot import SNAPSHOT
from ..features.recipe.detected import detected
from ..outcome.codec import load_json
from ..outcome.errors import BringupError
from ..outcome.model import Status
from ..report.facts import suites_of
from ..run.digests import digest_of, written_after
from ..run.rehearsed import signs_of_rehearsal
from ..run.run import Run, components_of
from ..run.version import COLLECTION, collection_version
from ..runtime.files import CLUSTER, DIGESTS, RECIPE, RUN
from ..runtime.redaction import redact
from ..verdict.gate import AppliedDecision, GateVerdict
from ..verdict.run import RunRecord, run_summary
from .claim import PREDICATE_TYPE, SCHEMA_VERSION, STATEMENT_TYPE, claim_of

_GPU = re.compile(r"\bGPU-[0-9a-fA-F-]{8,}|\b0x[0-9a-fA-F]{16}\b")
_Mask = Callable[[str], str]


def statement_of(run: Run, record: RunRecord, attested_at: str, *, full: bool) -> dict[str, Any]:
    """Return the statement about a run.

    Args:
        run: the run.
        record: its record as judged now.
        attested_at: when it is made.
        full: with names of nodes and messages.

    Raises:
        BringupError: a file of the run cannot be read.
        OSError: the same.
    """
    subjects = [name for name in (RECIPE, RUN, DIGESTS) if (run.path / name).is_file()]
    predicate = _predicate(run, record, _unmasked if full else _mask_of(run), full=full)
    claim = claim_of(predicate)
    predicate |= {
        "attestedAt": attested_at,
        "attestedBy": f"{COLLECTION} {collection_version()}",
        "claim": {"answer": claim.answer.value, "reasons": list(claim.reasons)},
    }
    return {
        "_type": STATEMENT_TYPE,
        "predicateType": PREDICATE_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest_of(run.path / name)}} for name in subjects],
        "predicate": predicate,
    }


def payload_of(statement: dict[str, Any]) -> bytes:
    """Return the bytes that are signed: the same statement always gives the same bytes."""
    return json.dumps(statement, indent=1, sort_keys=True, ensure_ascii=True).encode("ascii") + b"\n"


def _predicate(run: Run, record: RunRecord, mask: _Mask, *, full: bool) -> dict[str, Any]:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "redaction": "full" if full else "minimal",
        "run": _run(record, full=full),
        "rehearsal": record.rehearsal,
        "signsOfRehearsal": [mask(text) for text in signs_of_rehearsal(run.path, record)],
        "recipe": _recipe(run),
        "snapshot": _snapshot(run),
        "scope": list(record.scope),
        "gates": [_verdict(run, verdict, full=full) for verdict in record.gates],
        "phases": [_verdict(run, verdict, full=full) for verdict in record.phases],
        **_decisions(record, mask, full=full),
        "ownLimits": [mask(line) for line in record.own_limits],
        "quarantine": _quarantine(run, mask, full=full),
        "filesWrittenAfter": {name: digest_of(path) for name, path in written_after(run.path).items()},
        "software": {**record.versions, **_cluster(run, full=full)},
    }


def _run(record: RunRecord, *, full: bool) -> dict[str, Any]:
    kind = record.work.verb if record.work is not None else "validation" if record.validates else "bring-up"
    unproven = [
        text
        for text, so in (
            ("check mode: no gate was decided", record.check_mode),
            ("the run did not start or was stopped by a problem", bool(record.problem)),
            ("of the GPU stack it has only the checks that need the driver", record.driver_only),
            ("it proves the nodes of a wave alone", bool(record.wave)),
            ("what it recorded is not confirmed", record.unconfirmed > 0),
        )
        if so
    ]
    reported = {"id": record.run_id, "site": record.site, "started": record.started, "updated": record.updated}
    reported |= {"verdict": run_summary(record), "command": redact(record.command)} if full else {}
    return reported | {"kind": kind, "unproven": unproven, "nodes": record.nodes, "quarantined": record.quarantined}


def _recipe(run: Run) -> dict[str, Any] | None:
    recipe = run.recipe
    if recipe is None:
        return None
    versions = {entry["name"]: entry.get("version") or entry.get("tag") or "" for entry in recipe["componentRefs"]}
    return {
        "criteria": recipe.get("criteria", {}),
        "layers": recipe.get("metadata", {}).get("appliedOverlays", []),
        "components": {name: versions.get(name, "") for name in components_of(recipe)},
    }


def _snapshot(run: Run) -> dict[str, Any] | None:
    """Return the digest of the run's snapshot, and whether the cluster matches each criterion of the recipe.

    A criterion is null where the snapshot does not show it.
    """
    path = run.path / SNAPSHOT
    if not path.is_file():
        return None
    wanted, per_dimension = (run.recipe or {}).get("criteria", {}), {}
    observed = _observed(run)
    for name, value in sorted(wanted.items()):
        found = observed.get(name, "")
        per_dimension[name] = {"recipe": value, "cluster": found, "matched": found == value if found else None}
    answers = [entry["matched"] for entry in per_dimension.values()]
    matched = False if False in answers else True if answers and None not in answers else None
    return {
        "fingerprint": digest_of(path),
        "criteriaMatch": {"matched": matched, "perDimension": per_dimension},
    }


def _observed(run: Run) -> dict[str, str]:
    """Return the criteria from the snapshot; empty if it cannot be read."""
    from ..snapshot.formats import parse_snapshot

    path = run.path / SNAPSHOT
    try:
        snapshot = parse_snapshot(path.read_text(encoding="utf-8"), str(path))
        return {found.dimension: found.detected or found.value for found in detected(snapshot, ()).findings}
    except (BringupError, UnicodeDecodeError):
        return {}


def _verdict(run: Run, verdict: GateVerdict, *, full: bool) -> dict[str, Any]:
    taken = verdict.taken_over
    reported: dict[str, Any] = {
        "gate": verdict.gate,
        "status": verdict.status.value,
        "checks": verdict.checks,
        "counts": {status.value: verdict.counts.get(status.value, 0) for status in Status},
        "ctrf": {f"ctrf/{path.name}": digest_of(path) for path in suites_of(run.path, verdict.gate)},
        "blocking": dict(sorted(Counter(f"{entry.check}: {entry.cause}" for entry in verdict.blocking).items())),
        "notDeclared": [entry.id for entry in verdict.not_declared],
        "takenOver": None if taken is None else {"runs": list(taken.runs), "oldest": taken.oldest},
        "started": verdict.started,
        "durationSeconds": verdict.duration_s,
    }
    more = {"message": redact(verdict.message), "keyFigure": verdict.key_figure}
    return reported | (more if full else {})


def _decisions(record: RunRecord, mask: _Mask, *, full: bool) -> dict[str, Any]:
    verdicts = (*record.gates, *record.phases)
    return {
        "waivers": _grouped(((v.gate, entry) for v in verdicts for entry in v.waived), mask, full=full),
        "acceptances": _grouped(((v.gate, entry) for v in verdicts for entry in v.accepted), mask, full=full),
        "expired": _grouped(((v.gate, entry) for v in verdicts for entry in v.expired), mask, full=full),
    }


def _grouped(entries: Iterable[tuple[str, AppliedDecision]], mask: _Mask, *, full: bool) -> list[dict[str, Any]]:
    """Return the decisions of people, one entry each, with how many results it let through."""
    found: dict[tuple[str, ...], list[str]] = {}
    for gate, entry in entries:
        key = (gate, entry.check, entry.cause, entry.who, mask(redact(entry.reason)), entry.until)
        found.setdefault(key, []).append(entry.subject)
    names = ("gate", "check", "cause", "who", "reason", "until")
    return [
        {**dict(zip(names, key, strict=True)), "results": len(about), **({"subjects": sorted(about)} if full else {})}
        for key, about in sorted(found.items())
    ]


def _quarantine(run: Run, mask: _Mask, *, full: bool) -> list[dict[str, Any]]:
    return [
        {
            "who": entry.who,
            "ticket": mask(entry.ticket),
            "reason": mask(redact(entry.reason)),
            **({"node": entry.node} if full else {}),
        }
        for entry in sorted(run.site.quarantine, key=lambda entry: entry.node)
    ]


def _cluster(run: Run, *, full: bool) -> dict[str, str]:
    path = run.path / CLUSTER
    found = load_json(path) if path.is_file() else {}
    reported = {"Kubernetes": str(found.get("version", ""))} if found.get("version") else {}
    return reported | ({"cluster": str(found.get("uid", ""))} if full else {})


def _unmasked(text: str) -> str:
    return text


def _mask_of(run: Run) -> _Mask:
    """Return a function that masks names of nodes and of their parts in a text of people or settings."""
    names = {name for host in run.site.hosts for name in (host.name, host.node_name, host.bmc) if name}
    words = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") if words else None

    def mask(text: str) -> str:
        return _GPU.sub("<part>", pattern.sub("<node>", text) if pattern else text)

    return mask
