# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The run directory: one directory a run, `latest` pointing to the newest that preflight let through."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..outcome.errors import InputError
from .files import PRIVATE_DIR

# What a run directory keeps beside its results.
SITE, RUN, HARDWARE, RECIPE, SETTINGS = "site.json", "run.json", "hardware.json", "recipe.json", "settings.json"
CLUSTER, BASELINE, CABLING = "cluster.json", "baseline.json", "cabling.json"
# The checks that each gate or phase declared when it was judged, and the digests of all these files.
DECLARED, DIGESTS = "declared.json", "digests.json"
# How a run is named: by when it began. A time service may have put the clock back since.
_BEGUN = re.compile(r"(\d{8}T\d{6}Z)-")
_CLOCK_STEP = timedelta(minutes=10)


def create_run_dir(base: Path, mode: int = PRIVATE_DIR) -> Path:
    """Make a new run directory under `base`.

    Args:
        base: the directory of all runs.
        mode: of the directory; its files can be read by whom it lets in.

    Raises:
        InputError: `base` cannot be written.
    """
    import secrets

    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    run_dir = base / run_id
    try:
        base.mkdir(parents=True, exist_ok=True)
        run_dir.mkdir(mode=PRIVATE_DIR)
        run_dir.chmod(PRIVATE_DIR | mode)
    except OSError as error:
        raise _not_writable(base, error) from None
    return run_dir


def point_latest(run_dir: Path) -> None:
    """Let `latest` beside the run directory point to it, once preflight let the run through.

    What reads `latest` needs the checked inventory, which a run that was refused does not have.

    Raises:
        InputError: the directory of all runs cannot be written.
    """
    base, fresh = run_dir.parent, run_dir.parent / f".latest-{run_dir.name}"
    try:
        fresh.symlink_to(run_dir.name)
        os.replace(fresh, base / "latest")
    except OSError as error:
        raise _not_writable(base, error) from None


def _not_writable(base: Path, error: OSError) -> InputError:
    hint = "set gpufleet_run_dir to a writable directory"
    return InputError(str(base), f"cannot hold a run: {error.strerror}.", hint)


def run_id_of(run_dir: Path) -> str:
    """Return the name of the run whose directory it is; empty where nothing says so."""
    return _text_of(run_dir / RUN, "run_id")


def cluster_uid_of(run_dir: Path) -> str:
    """Return the UID of the cluster that preflight of that run saw; empty where it saw none, or might not read it."""
    return _text_of(run_dir / CLUSTER, "uid")


def _text_of(path: Path, name: str) -> str:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(document.get(name) or "") if isinstance(document, dict) else ""


def require_run(path: Path, written_by: str, run_id: str, *, stated: bool) -> None:
    """Refuse a file that another run wrote, or that does not say of which run it is though it is `stated` there.

    Raises:
        InputError: it is of another run.
    """
    if run_id and written_by != run_id and (written_by or stated):
        raise InputError(
            str(path),
            f"is of run {written_by or 'no name'}, this is run {run_id}.",
            "run the gate again; results of runs do not mix",
        )


def require_cluster(path: Path, seen: str | None, uid: str) -> None:
    """Refuse a file that was seen in another cluster than the run's; None says that no cluster was asked, or that an
    earlier release, which did not record it, wrote the file.

    Raises:
        InputError: it is of another cluster.
    """
    if seen is not None and seen != uid:
        raise InputError(
            str(path),
            f"is of cluster {seen or 'unknown'}, this run is of cluster {uid or 'unknown'} (UID of kube-system).",
            "run the gate again; results of clusters do not mix",
        )


def require_moment(path: Path, started: str, run_id: str) -> None:
    """Refuse a file that does not say when it was made, or was made before its run began.

    Raises:
        InputError: what it says, and when the run began.
    """
    moment = _moment(started)
    if moment is None:
        raise InputError(str(path), f"does not say when it was made: {started!r}.", "run the gate again")
    begun = _BEGUN.match(run_id)
    if begun and moment < datetime.strptime(begun[1], "%Y%m%dT%H%M%S%z") - _CLOCK_STEP:
        reason = f"was made at {started}, before this run began ({begun[1]})."
        raise InputError(str(path), reason, "run the gate again; what an earlier run saw proves nothing today")


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and "T" in text else None
