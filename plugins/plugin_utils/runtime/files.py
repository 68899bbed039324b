# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files and directories of the controller: recipe data, the run directory, and atomic writes."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..outcome.errors import InputError, UnavailableError
from ..outcome.gates import GATE_IDS

# Atomic writes: a file is complete or absent, and as private as its directory.

PRIVATE_DIR, PRIVATE_FILE = 0o700, 0o600
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Files of the kernel. They include /dev/stdout and /dev/fd/1, which may lead to a regular file.
_KERNEL, _IN_MEMORY = (Path("/dev"), Path("/proc"), Path("/sys")), Path("/dev/shm")
_OTHER_KINDS = (
    (stat.S_ISDIR, "a directory", "name a file in it"),
    (stat.S_ISFIFO, "a pipe", "name a regular file, and read that"),
    (stat.S_ISSOCK, "a socket", "name a regular file"),
    (lambda _mode: True, "a device", "name a regular file"),
)
_MOST_LINKS = 40


def write_problem(path: Path, error: OSError) -> UnavailableError:
    """Return the error for a file that could not be written: it names the path and the place to check."""
    reason = error.strerror or str(error)
    place = next((parent for parent in (path, *path.parents) if parent.is_dir()), Path("/"))
    full = f"make room there: df -h '{place}' (and df -i, for files can run out before bytes do)"
    hint = full if error.errno in _FULL else f"see who may write there: ls -ld '{place}'"
    return UnavailableError(str(path), f"cannot be written: {reason}.", hint)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn operating system errors of this block, which writes `path`, into ours.

    Raises:
        UnavailableError: see write_problem.
    """
    try:
        yield
    except OSError as error:
        raise write_problem(path, error) from None


def file_to_write(path: Path) -> Path:
    """Return the file that is replaced by writing to `path`. A link stays, and its target is replaced.

    Raises:
        InputError: not a place for a file: a device, a pipe, a socket, a directory, or a dangling link.
        UnavailableError: the path cannot be examined.
    """
    with writing(path):
        meant = _behind_links(path)
        _refuse_other_kinds(path, meant)
    return meant


def _behind_links(path: Path) -> Path:
    meant = path
    for _link in range(_MOST_LINKS):
        # realpath, since Path.resolve raises on loops only in some releases of Python.
        meant = Path(os.path.realpath(meant.parent), meant.name)
        if any(meant.is_relative_to(place) for place in _KERNEL) and not meant.is_relative_to(_IN_MEMORY):
            hint = "name a regular file; `gpufleet recipe` prints a recipe to standard output"
            raise InputError(str(path), "is a device or a file of the kernel, which is never written.", hint)
        if not meant.is_symlink():
            break
        meant = meant.parent / os.readlink(meant)
    else:
        raise InputError(str(path), "is a link in a loop of links.", f"see where it leads: namei '{path}'")
    for place in (path, *path.parents):
        if place.is_symlink() and not place.exists():
            reason = f"cannot be written: {place} is a link to {os.readlink(place)}, which is not there."
            raise InputError(str(path), reason, f"make what it leads to, or remove the link: rm '{place}'")
    return meant


def _refuse_other_kinds(path: Path, meant: Path) -> None:
    try:
        mode = meant.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind, hint = next((kind, hint) for matches, kind, hint in _OTHER_KINDS if matches(mode))
        raise InputError(str(path), f"is {kind}, no place for a file.", hint)


def write_atomic(path: Path, text: str, mode: int | None = None) -> None:
    """Write text atomically: a reader gets the old file or the new one, never half of it. See file_to_write for links.

    Args:
        path: the file. Missing directories are created with the mode of the one above them.
        text: its content.
        mode: its mode; by default readable by everyone who can read the directory.

    Raises:
        InputError: see file_to_write.
        UnavailableError: it cannot be written, for example on a full disk.
    """
    write_atomic_bytes(path, text.encode("utf-8"), mode)


def write_atomic_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write bytes atomically, as write_atomic does.

    Raises:
        InputError: see file_to_write.
        UnavailableError: it cannot be written.
    """
    meant = file_to_write(path)
    with writing(path):
        _write(meant, content, mode)


def _write(path: Path, content: bytes, mode: int | None) -> None:
    make_dirs(path.parent)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, file_mode(path.parent) if mode is None else mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_mode(directory: Path) -> int:
    """Return the mode of files in a directory: 0600 in one of 0700, 0640 in one of 0750."""
    return PRIVATE_FILE | (directory.stat().st_mode & 0o044)


def make_dirs(path: Path) -> None:
    """Create a directory and its missing parents, each as private as the existing one above.

    Raises:
        OSError: one cannot be created.
    """
    if path.is_dir():
        return
    make_dirs(path.parent)
    mode = PRIVATE_DIR | (path.parent.stat().st_mode & 0o055)
    try:
        # With its final mode from the start: another thread that creates something below takes the mode from it.
        path.mkdir(mode=mode)
    except FileExistsError:
        return
    # The umask may have removed permissions of others.
    path.chmod(mode)


# Location of the collection and its recipe data, in a checkout or installed. Defined only here.

COLLECTION_ROOT = Path(__file__).resolve().parents[3]
RECIPES = COLLECTION_ROOT / "recipes"
# The rehearsal collection. No module here imports it, since a production site does not install it.
REHEARSAL = "gpufleet.rehearsal"


def collection_root(name: str) -> Path | None:
    """Return the directory of a collection that this Ansible finds by name, None if it finds none."""
    try:
        package = importlib.import_module(f"ansible_collections.{name}")
    except ImportError:
        return None
    # Python treats an empty directory as a package, so `meta` has to be there.
    places = (Path(place).resolve() for place in package.__path__)
    return next((place for place in places if (place / "meta").is_dir()), None)


def gate_files(name: str, recipes: Path = RECIPES) -> tuple[Path, ...]:
    """Return the file of that name in recipes/gates/<gate>/ for every gate that has one, in the order of the gates."""
    paths = (recipes / "gates" / gate / name for gate in GATE_IDS)
    return tuple(path for path in paths if path.is_file())


def recipe_roots(extra: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the collection's recipe directory, then those of the site. Later ones override."""
    return (RECIPES, *(Path(path).expanduser() for path in extra))


def recipe_directories(name: str, extra: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the directories of that name, such as `hardware`, below all recipe roots."""
    return tuple(path for root in recipe_roots(extra) if (path := root / name).is_dir())


# The run directory: one per run. `latest` points to the newest run that passed preflight.

# Inputs of a run, kept beside its results.
SITE, RUN, HARDWARE, RECIPE, SETTINGS = "site.json", "run.json", "hardware.json", "recipe.json", "settings.json"
CLUSTER, BASELINE, CABLING = "cluster.json", "baseline.json", "cabling.json"
# Checks that each gate or phase declared when it was judged, and the digests of all these files.
DECLARED, DIGESTS = "declared.json", "digests.json"
# Reports made from the record: for people, for pull requests, for programs.
PAGE, SUMMARY, MACHINE, METRICS = REPORTS = ("report.html", "report.md", "report.json", "metrics.prom")
# Written after the verdicts: state of the site, one CTRF report of all suites, the signed statement.
STATE, WHOLE_SUITE, STATEMENT = "state.json", "ctrf/all.json", "attestation.intoto.jsonl"
# Link to the newest run that passed preflight.
LATEST = "latest"
# Locked by the keeper of a run while the run is active (workload/keeper.py), and the process whose run it is.
KEEPER_LOCK, CONTROLLER = ".keeper.lock", ".controller.json"
# A run's name starts with its start time. NTP may have set the clock back since, by this much.
_BEGUN = re.compile(r"(\d{8}T\d{6}Z)-")
_CLOCK_STEP = timedelta(minutes=10)


def create_run_dir(base: Path, mode: int = PRIVATE_DIR) -> Path:
    """Create a new run directory under `base`.

    Args:
        base: the directory of all runs.
        mode: mode of the directory. Its files are readable by everyone who can read it.

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
    """Point `latest` beside the run directory to it, once the run has passed preflight.

    Readers of `latest` need the checked inventory, which a refused run does not have.

    Raises:
        InputError: the directory of all runs cannot be written.
    """
    base, fresh = run_dir.parent, run_dir.parent / f".latest-{run_dir.name}"
    try:
        fresh.symlink_to(run_dir.name)
        os.replace(fresh, base / LATEST)
    except OSError as error:
        raise _not_writable(base, error) from None


def _not_writable(base: Path, error: OSError) -> InputError:
    hint = "set gpufleet_run_dir to a writable directory"
    return InputError(str(base), f"cannot hold a run: {error.strerror}.", hint)


def run_id_of(run_dir: Path) -> str:
    """Return the name of the run with this directory; empty if it is not recorded."""
    return _text_of(run_dir / RUN, "run_id")


def cluster_uid_of(run_dir: Path) -> str:
    """Return the UID of the run's cluster as preflight read it.

    Empty without a cluster, or without permission to read it.
    """
    return _text_of(run_dir / CLUSTER, "uid")


def _text_of(path: Path, name: str) -> str:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(document.get(name) or "") if isinstance(document, dict) else ""


def require_run(path: Path, written_by: str, run_id: str, *, configured: bool) -> None:
    """Refuse a file of another run, or one without a run where the format has it (`configured`).

    Raises:
        InputError: it is of another run.
    """
    if run_id and written_by != run_id and (written_by or configured):
        raise InputError(
            str(path),
            f"is of run {written_by or 'no name'}, this is run {run_id}.",
            "run the gate again; results of runs do not mix",
        )


def require_cluster(path: Path, observed: str | None, uid: str) -> None:
    """Refuse a file whose observations are of another cluster than the run's.

    `observed` is None if no cluster was queried, or if an earlier release wrote the file and did not record it.

    Raises:
        InputError: it is of another cluster.
    """
    if observed is not None and observed != uid:
        raise InputError(
            str(path),
            f"is of cluster {observed or 'unknown'}, this run is of cluster {uid or 'unknown'} (UID of kube-system).",
            "run the gate again; results of clusters do not mix",
        )


def require_moment(path: Path, started: str, run_id: str) -> None:
    """Refuse a file without a time, or with a time before its run began.

    Raises:
        InputError: with the time in the file and the start of the run.
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
