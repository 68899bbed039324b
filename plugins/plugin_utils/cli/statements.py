# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands evidence and evidence-verify: the signed statement about a run, and what one proves."""

from __future__ import annotations

import tarfile
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..evidence.claim import Answer
from ..evidence.issue import Issued, issue
from ..evidence.read import unpack_run
from ..evidence.verify import Trust, Verified, verify
from ..outcome.errors import NotFoundError
from ..run.run import Run, existing_run_dir
from ..runtime.files import STATEMENT
from .answer import formatted, write, write_lines

_UNSIGNED = "skipped (unsigned)"


def evidence(arguments: Namespace) -> int:
    """Write the statement about a run, or add a signature to the existing one."""
    made = issue(
        Run(existing_run_dir(arguments.run)),
        _path(arguments.out),
        keys=[Path(text).expanduser() for text in arguments.key or ()],
        ssh_keys=[Path(text).expanduser() for text in arguments.ssh_key or ()],
        full=arguments.full,
    )
    if arguments.format in (None, "text"):
        write_lines(_written(made))
    else:
        claim = {"answer": made.claim.answer.value, "reasons": list(made.claim.reasons)}
        signed = {"signatures": list(made.keyids), "signed": list(made.added) or _UNSIGNED}
        write(formatted({"statement": str(made.path), "claim": claim, **signed}, arguments.format))
    return 0


def _written(made: Issued) -> Iterator[str]:
    yield f"statement  {made.path}"
    yield f"signed     {', '.join(made.added) or _UNSIGNED}"
    if others := [keyid for keyid in made.keyids if keyid not in made.added]:
        yield f"before     {', '.join(others)}"
    yield f"claims     {made.claim.answer.value if made.claim.answer is not Answer.VALID else 'an acceptance'}"
    yield from (f"because    {text}" for text in made.claim.reasons)


def evidence_verify(arguments: Namespace) -> int:
    """Print what a statement proves; the exit code is that of the result."""
    trust = Trust(
        keys=tuple(Path(text).expanduser() for text in arguments.key or ()),
        allowed_signers=tuple(Path(text).expanduser() for text in arguments.allowed_signers or ()),
    )
    with _target(Path(arguments.target).expanduser(), _path(arguments.run)) as (path, run_dir):
        found = verify(_content(path), str(path), trust, Run(run_dir) if run_dir else None)
    if arguments.format in (None, "text"):
        write_lines(_reported(found))
    else:
        reported: dict[str, Any] = {
            "answer": found.answer.value,
            "reasons": list(found.reasons),
            "signers": list(found.signers),
        }
        reported |= {"unchecked": list(found.unchecked), "run_compared": found.run_compared}
        write(formatted({**reported, "statement": found.statement}, arguments.format))
    return found.answer.exit_code


def _reported(found: Verified) -> Iterator[str]:
    predicate = (found.statement or {}).get("predicate", {})
    run = predicate.get("run", {})
    if found.answer is Answer.VALID:
        nodes = f"{run['nodes'] - run['quarantined']} of {run['nodes']} nodes"
        yield f"valid: accepted {nodes} of site {run['site']}, run {run['id']}"
        yield from _decisions(predicate)
    else:
        yield f"{found.answer.value}: {found.reasons[0]}"
        yield from (f"  and: {text}" for text in found.reasons[1:])
    yield from (f"signed by   {text}" for text in found.signers)
    yield from (f"not checked {keyid}: nobody named its key" for keyid in found.unchecked)
    if found.statement is not None and not found.run_compared:
        yield "the files of the run were not compared: add --run RUN_DIR"


def _decisions(predicate: dict[str, Any]) -> Iterator[str]:
    """Yield what a signer reads beside the acceptance: what people let through, and their own limits."""
    for name, words in (("waivers", "waived"), ("acceptances", "marginal, let through"), ("ownLimits", "own limits")):
        if entries := predicate.get(name):
            yield f"{words}: {len(entries)} (--format yaml lists them)"


@contextmanager
def _target(path: Path, run: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Yield the file of the statement, and the run to compare it with: that of a directory or an archive, or another
    that is named."""
    named = existing_run_dir(str(run)) if run else None
    if path.is_dir():
        yield path / STATEMENT, named or existing_run_dir(str(path))
    elif path.is_file() and tarfile.is_tarfile(path):
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as directory:
            inside = unpack_run(path, Path(directory))
            yield inside / STATEMENT, named or existing_run_dir(str(inside))
    else:
        yield path, named


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise NotFoundError(str(path), "no such file, so there is no statement.", "make one: gpufleet evidence RUN")
    return path.read_bytes()


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
