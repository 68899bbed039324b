# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One call of the command gpufleet: arguments, the command that they name, and every end with its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

from ..outcome.errors import AbortedError, BringupError, InputError, ProblemsError, UnavailableError
from ..runtime.visible import visible
from .arguments import arguments_of

# What a shell sees of a program that wrote to a reader who has gone (128 and SIGPIPE).
_READER_GONE = 141


def run(argv: Sequence[str], cache: str) -> int:
    """Run the command and return its exit code: 0, or that of the error (outcome/errors.py); nothing is raised.

    Args:
        argv: the arguments.
        cache: the directory of this user where what is made once is kept.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign shows its number.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _run(argv, Path(cache))
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            _discard_output()
            return _READER_GONE
        except OSError as error:
            _discard_output()
            what = error.filename or "standard output"
            raise UnavailableError(str(what), f"{error.strerror or error}.") from None
        except SystemExit as end:
            return int(end.code or 0)
        except KeyboardInterrupt:
            raise AbortedError("this command", "was interrupted.") from None
        except ModuleNotFoundError as error:
            raise _package_missing(error) from None
    except BringupError as error:
        _tell(error)
        return error.exit_code
    except Exception as crash:
        if "--debug" in argv:
            raise
        reason = f"crashed with {type(crash).__name__}: {crash}."
        _tell(BringupError("this command", reason, "this is a defect: run it again with --debug and report it"))
        return BringupError.exit_code


def _run(argv: Sequence[str], cache: Path) -> int:
    if list(argv) == ["--version"]:
        from ..run.version import COLLECTION, collection_version

        sys.stdout.write(f"{COLLECTION} {collection_version()}\n")
        return 0
    arguments = arguments_of(argv, cache)
    arguments.cache = cache
    module, _colon, function = str(arguments.work).partition(":")
    code: int = getattr(import_module(f"{__package__}.{module}"), function)(arguments)
    return code


def _tell(error: BringupError) -> None:
    """Say what is wrong on standard error; one problem is said without a list."""
    if isinstance(error, ProblemsError) and len(error.problems) == 1:
        _tell(error.problems[0])
        return
    try:
        text = str(error) if str(error).startswith("gpufleet") else f"gpufleet: {error}"
        sys.stderr.write("".join(f"{visible(line)}\n" for line in text.split("\n")))
        sys.stderr.flush()
    except OSError:
        return


def _discard_output() -> None:
    """Let Python's own flush at the end find somebody who takes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _package_missing(error: ModuleNotFoundError) -> BringupError:
    if (error.name or "").partition(".")[0] == "ansible_collections":
        raise error
    from ..runtime.recipe_files import COLLECTION_ROOT

    hint = (
        f"{sys.executable} -m pip install -r {COLLECTION_ROOT}/requirements.txt, or name a Python that has it: "
        "GPUFLEET_PYTHON=/path/to/python3"
    )
    return InputError(f"Python package {error.name}", f"is not installed for {sys.executable}.", hint)
