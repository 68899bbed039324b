# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files and directories of the controller: the recipe data, the run directory, and files that are whole or absent."""

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

# Files that are whole or absent, and as private as the directory that they are in.

PRIVATE_DIR, PRIVATE_FILE = 0o700, 0o600
_FULL = (errno.ENOSPC, errno.EDQUOT)
# What the kernel shows as files, among them /dev/stdout and /dev/fd/1, which may lead to a regular file.
_KERNEL, _IN_MEMORY = (Path("/dev"), Path("/proc"), Path("/sys")), Path("/dev/shm")
_OTHER_KINDS = (
    (stat.S_ISDIR, "a directory", "name a file in it"),
    (stat.S_ISFIFO, "a pipe", "name a regular file, and read that"),
    (stat.S_ISSOCK, "a socket", "name a regular file"),
    (lambda _mode: True, "a device", "name a regular file"),
)
_MOST_LINKS = 40


def write_problem(path: Path, error: OSError) -> UnavailableError:
    """Return the error for a file that this machine would not write: it names the path, and what to look at."""
    reason = error.strerror or str(error)
    place = next((parent for parent in (path, *path.parents) if parent.is_dir()), Path("/"))
    full = f"make room there: df -h '{place}' (and df -i, for files can run out before bytes do)"
    hint = full if error.errno in _FULL else f"see who may write there: ls -ld '{place}'"
    return UnavailableError(str(path), f"cannot be written: {reason}.", hint)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the operating system while a file is written into ours.

    Raises:
        UnavailableError: see write_problem.
    """
    try:
        yield
    except OSError as error:
        raise write_problem(path, error) from None


def file_to_write(path: Path) -> Path:
    """Return the file that is replaced where this path is written: links stay, the file that they lead to is meant.

    Raises:
        InputError: it is no place for a file: a device, a pipe, a socket, a directory, or a link that leads nowhere.
        UnavailableError: it cannot be looked at.
    """
    with writing(path):
        meant = _behind_links(path)
        _refuse_other_kinds(path, meant)
    return meant


def _behind_links(path: Path) -> Path:
    meant = path
    for _link in range(_MOST_LINKS):
        # realpath, for Path.resolve raises on loops in some releases of Python only.
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
    """Write text so that a reader sees the old file or the new one, never half of it; see file_to_write for links.

    Args:
        path: the file; directories that lack are made, with the mode of the one above them.
        text: what it holds.
        mode: its mode; without it whoever may read the directory may read the file.

    Raises:
        InputError: see file_to_write.
        UnavailableError: it cannot be written, a full disk among the reasons.
    """
    write_atomic_bytes(path, text.encode("utf-8"), mode)


def write_atomic_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write bytes in the way of write_atomic.

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
    """Make a directory and those above it that lack, each as private as the one that was there.

    Raises:
        OSError: one cannot be made.
    """
    if path.is_dir():
        return
    make_dirs(path.parent)
    mode = PRIVATE_DIR | (path.parent.stat().st_mode & 0o055)
    try:
        # As private as it will be from the first moment: what another thread makes below it takes its mode.
        path.mkdir(mode=mode)
    except FileExistsError:
        return
    # The umask may have taken away what others are to see.
    path.chmod(mode)


# Where the collection and its recipe data lie: the only place that knows, in a checkout or installed.

COLLECTION_ROOT = Path(__file__).resolve().parents[3]
RECIPES = COLLECTION_ROOT / "recipes"
# The collection that rehearses. Nothing here imports it: who only brings clusters up does not have it.
REHEARSAL = "gpufleet.rehearsal"


def collection_root(name: str) -> Path | None:
    """Return where a collection lies that this Ansible finds by its name, None where it finds none."""
    try:
        package = importlib.import_module(f"ansible_collections.{name}")
    except ImportError:
        return None
    # An empty directory is a package for Python.
    places = (Path(place).resolve() for place in package.__path__)
    return next((place for place in places if (place / "meta").is_dir()), None)


def gate_files(name: str, recipes: Path = RECIPES) -> tuple[Path, ...]:
    """Return the file of that name of every gate that has one (recipes/gates/<gate>/), in the order of the gates."""
    paths = (recipes / "gates" / gate / name for gate in GATE_IDS)
    return tuple(path for path in paths if path.is_file())


def recipe_roots(extra: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the collection's own recipe directory, then those of the site: what is read later wins."""
    return (RECIPES, *(Path(path).expanduser() for path in extra))


def recipe_directories(name: str, extra: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the directories of one name, such as `hardware`, below every recipe root that has one."""
    return tuple(path for root in recipe_roots(extra) if (path := root / name).is_dir())


# The run directory: one directory a run, `latest` pointing to the newest that preflight let through.

# What a run directory keeps beside its results.
SITE, RUN, HARDWARE, RECIPE, SETTINGS = "site.json", "run.json", "hardware.json", "recipe.json", "settings.json"
CLUSTER, BASELINE, CABLING = "cluster.json", "baseline.json", "cabling.json"
# The checks that each gate or phase declared when it was judged, and the digests of all these files.
DECLARED, DIGESTS = "declared.json", "digests.json"
# What is written from the record: for people, for pull requests, for programs.
PAGE, SUMMARY, MACHINE, METRICS = REPORTS = ("report.html", "report.md", "report.json", "metrics.prom")
# What is written of a run after its verdicts: what the site was like, one CTRF report of all suites, the signed
# statement about it.
STATE, WHOLE_SUITE, STATEMENT = "state.json", "ctrf/all.json", "attestation.intoto.jsonl"
# The link to the newest run that preflight let begin.
LATEST = "latest"
# What the keeper of a run has locked while the run lives (workload/keeper.py).
KEEPER_LOCK = ".keeper.lock"
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
        os.replace(fresh, base / LATEST)
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
