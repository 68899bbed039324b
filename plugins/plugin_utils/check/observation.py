# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observations: what an observer found, saved in the run directory and read back for judging."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from time import monotonic
from typing import Any, get_origin

from ..outcome.codec import dumps, load, load_json, require_complete, to_plain
from ..outcome.errors import AbortedError, BringupError, InputError
from ..runtime.clock import now_utc
from ..runtime.files import cluster_uid_of, require_cluster, require_moment, require_run, run_id_of, write_atomic
from ..runtime.redaction import redact, redact_data, redact_settings
from .spec import ObserveContext, Observer

_WRITTEN = ("gate", "key", "started", "duration_s", "data", "error", "schema_version")
_AGAIN = "run the gate again"
# Since schema 2 every field of the saved data must be there; in schema 1 those with a default might be missing. Whoever
# adds a field after a release raises the number (docs/development.md).
_SCHEMA_VERSION = 2
_READ = (1, _SCHEMA_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an observer found: `data` as JSON, or `error` (BringupError as a dict) where it could not observe.

    `run_id` is the run that observed, empty if an earlier release did. `cluster` is the UID of the observed cluster,
    None if the observer queried none.
    """

    gate: str
    key: str
    started: str
    duration_s: float
    data: Any = None
    error: dict[str, Any] | None = None
    run_id: str = ""
    cluster: str | None = None
    schema_version: int = _SCHEMA_VERSION


def observation_path(run_dir: Path, gate: str, key: str) -> Path:
    """Return the path of the observation of that gate and key."""
    return run_dir / "observations" / gate / f"{key}.json"


def observe(observer: Observer[Any], gate: str, context: ObserveContext) -> Observation:
    """Observe, save the result or the error, and return it.

    Raises:
        AbortedError: the run was ended meanwhile; nothing is saved.
    """
    return save_observation(look(observer, gate, context), context.run_dir)


def look(observer: Observer[Any], gate: str, context: ObserveContext) -> Observation:
    """Return what the observer found, or its error; nothing is saved.

    Raises:
        AbortedError: the run was ended meanwhile.
    """
    started, clock = now_utc(), monotonic()
    data, error = None, None
    try:
        data = json.loads(json.dumps(redact_settings(to_plain(observer.observe(context)))))
    except AbortedError:
        # This is the end of the run and no observation: the next observer must not start.
        raise
    except BringupError as failure:
        error = failure.to_dict()
    except (Exception, SystemExit) as crash:  # noqa: BLE001 - it must become `other`, never end the run half-written
        error = BringupError(
            f"observer {observer.key}",
            f"crashed with {type(crash).__name__}: {redact(str(crash))[:400]}.",
            "this is a defect: report it with the run directory",
        ).to_dict()
    return Observation(
        gate=gate, key=observer.key, started=started, duration_s=round(monotonic() - clock, 3), data=data,
        error=redact_data(error),
        run_id=run_id_of(context.run_dir), cluster=context.cluster_uid,
    )  # fmt: skip


def save_observation(observed: Observation, run_dir: Path) -> Observation:
    """Write an observation and return it."""
    write_atomic(observation_path(run_dir, observed.gate, observed.key), dumps(observed))
    return observed


def saved_observation(run_dir: Path, gate: str, key: str) -> Observation:
    """Return the saved observation.

    Raises:
        InputError: the file is missing or unreadable, or it is of another gate, observer, run or cluster.
    """
    path = observation_path(run_dir, gate, key)
    observed = load(Observation, path)
    document = load_json(path)
    since_2 = () if observed.schema_version == 1 else ("run_id", "cluster")
    missing = [name for name in (*_WRITTEN, *since_2) if name not in document]
    if missing:
        raise InputError(str(path), f"has no {missing[0]}, which is always written.", _AGAIN)
    if (observed.gate, observed.key) != (gate, key):
        raise InputError(str(path), f"is the observation {observed.key} of gate {observed.gate}.", _AGAIN)
    if observed.schema_version not in _READ:
        known = " and ".join(map(str, _READ))
        raise InputError(
            str(path), f"has schema_version {observed.schema_version}, this release reads {known}.", _AGAIN
        )
    whole = observed.schema_version == _SCHEMA_VERSION
    require_run(path, observed.run_id, run_id_of(run_dir), configured=whole)
    require_cluster(path, observed.cluster, cluster_uid_of(run_dir))
    if whole:
        require_moment(path, observed.started, observed.run_id)
    return observed


def require_whole(observer: Observer[Any], observed: Observation) -> None:
    """Refuse an observation that lacks a field of its saved type.

    Observations of schema 1 are not refused: earlier releases wrote fewer fields.

    Raises:
        InputError: the field that is missing or does not fit, or the schema that this release does not read.
    """
    if observer.saved is not None:
        _require_schema(observer.saved, observed)
    if observer.saved is not None and observed.schema_version == _SCHEMA_VERSION:
        require_complete(observer.saved, observed.data, f"observation {observed.key}", _AGAIN)


def _require_schema(saved: type[Any], observed: Observation) -> None:
    known = next(
        (entry.default for entry in fields(get_origin(saved) or saved) if entry.name == "schema_version"), None
    )
    found = observed.data.get("schema_version", known) if isinstance(observed.data, dict) else known
    if found != known:
        text = f"is of schema_version {found}, this release reads {known}."
        raise InputError(f"observation {observed.key}", text, _AGAIN)
