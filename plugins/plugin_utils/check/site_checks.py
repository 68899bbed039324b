# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks that a site has written itself: files of directories that its inventory names, in the form of our own.

A directory is laid out as check/ is: `<gate>/<check_id>.py` with SPEC, judge and CHECK, observers beside them, and
defaults of their settings in `thresholds/*.yaml`. Files of one directory import each other as ours do (`from
.observe_licences import OBSERVER`). Whatever is wrong with one is a problem with its file, never a traceback.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from ..outcome.errors import BringupError, InputError
from ..outcome.gates import GATE_IDS, GATE_PHASE, PHASE_GATES, STACK_GATE
from ..outcome.model import SubjectKind
from ..runtime.clock import time_limit
from .kit.settings import settings_in
from .spec import Applies, Check, CheckSpec, Disturbance, Observer

# What a module with a check must have: a CHECK whose judge takes what its observer returns.

AnyCheck = Check[Any]
AnyObserver = Observer[Any]


def verified(module: ModuleType) -> AnyCheck:
    """Return the check of a module. mypy finds these errors in our own files; here they are refused in any file.

    Raises:
        BringupError: the module has no CHECK, or its judge takes another type than its observer returns.
    """
    check = getattr(module, "CHECK", None)
    if not isinstance(check, Check):
        raise _defect(module, "has a SPEC and no CHECK = Check(SPEC, OBSERVER, judge).")
    return _fitting(module, check)


def verified_checks(module: ModuleType) -> tuple[AnyCheck, ...]:
    """Return the checks of a module with several of one topic in CHECKS, empty where it has no such tuple.

    Raises:
        BringupError: a judge takes another type than its observer returns.
    """
    return tuple(_fitting(module, check) for check in getattr(module, "CHECKS", ()) if isinstance(check, Check))


def _fitting(module: ModuleType, check: AnyCheck) -> AnyCheck:
    takes = next(iter(get_type_hints(check.judge).values()), None)
    if takes is not check.observer.result:
        made = check.observer.result.__name__
        raise _defect(module, f"its judge takes {takes}, and observer {check.observer.key!r} makes {made}.")
    return check


def _defect(module: ModuleType, text: str) -> BringupError:
    return BringupError(f"check module {module.__name__}", text, "correct the file, or report it as a defect")


VARIABLE = "gpufleet_check_dirs"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_THRESHOLDS = "thresholds"
_SKIPPED = ("__pycache__", _THRESHOLDS)
_PACKAGE = "gpufleet_site_checks_"
_IMPORT_S = 60.0
# A check of a site that waits for ever would block its gate, and the Lease of the cluster, for ever.
LONGEST_S = 1800.0


@dataclass(frozen=True, slots=True)
class SiteChecks:
    """The checks of a site's directories, the file of each, and all problems found in the directories."""

    checks: tuple[AnyCheck, ...] = ()
    files: tuple[str, ...] = ()
    problems: tuple[BringupError, ...] = ()


@cache
def load_site_checks(directories: tuple[str, ...]) -> SiteChecks:
    """Return the checks of these directories, in their order, then by gate and file name."""
    checks: list[AnyCheck] = []
    files: list[str] = []
    problems: list[BringupError] = []
    for text in directories:
        directory = Path(text)
        if not directory.is_dir():
            problems.append(InputError(f"{VARIABLE}: {text}", "is no directory.", "correct the path, or take it out"))
            continue
        problems += _strangers(directory)
        package = _package(directory)
        for gate, path in _files(directory):
            try:
                with time_limit(f"import of {path}", _IMPORT_S, "let it define things and do nothing else"):
                    module = import_module(f"{package}.{gate}.{path.stem}")
                found = _check(module, gate, path)
                problems += _settings_problems(found, path) if found else []
            except BringupError as error:
                problems.append(error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - what a file raises is a problem with that file
                problems.append(_not_imported(path, error))
            else:
                checks += [found] if found else []
                files += [str(path)] if found else []
    return SiteChecks(tuple(checks), tuple(files), tuple(problems))


def _package(directory: Path) -> str:
    """Return the name of a package whose modules are the files of that directory."""
    import hashlib

    name = f"{_PACKAGE}{hashlib.sha256(str(directory).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
    return name


def _strangers(directory: Path) -> Iterator[BringupError]:
    for path in sorted(directory.iterdir()):
        if path.is_dir() and path.name not in (*GATE_IDS, *_SKIPPED) and not path.name.startswith("."):
            hint = f"one directory a gate: {', '.join(GATE_IDS)}; and {_THRESHOLDS}"
            yield InputError(str(path), "is named after no gate.", hint)
        elif path.is_file() and path.suffix == ".py":
            yield InputError(str(path), "lies in the directory of no gate.", f"move it to {directory}/<gate>/")


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    for gate in GATE_IDS:
        for path in sorted((directory / gate).glob("*.py")):
            if path.stem != "__init__":
                yield gate, path


def _check(module: ModuleType, gate: str, path: Path) -> AnyCheck | None:
    """Return the check of a file, None for a file with only an observer or with code that several files share."""
    spec = getattr(module, "SPEC", None)
    if spec is None:
        if hasattr(module, "CHECK"):
            raise InputError(str(path), "has a CHECK and no SPEC.", "SPEC = CheckSpec(...), CHECK = Check(SPEC, ...)")
        return None
    if not isinstance(spec, CheckSpec):
        raise InputError(str(path), f"its SPEC is {type(spec).__name__}.", "SPEC = CheckSpec(...) of check.spec")
    if not _NAME.fullmatch(spec.id) or spec.id.replace("-", "_") != path.stem:
        hint = f"call it {path.stem.replace('_', '-')!r}, or the file {spec.id.replace('-', '_')}.py"
        raise InputError(str(path), f"its SPEC has the id {spec.id!r}, which is not its file's name.", hint)
    if spec.gate != gate:
        hint = f"move the file to {spec.gate}/, or state gate={gate!r}"
        raise InputError(str(path), f"lies in {gate}/, and its SPEC says gate {spec.gate!r}.", hint)
    wrong = _wrong_in(spec)
    if wrong:
        raise InputError(str(path), f"its SPEC has {wrong[0]}.", wrong[1])
    try:
        return verified(module)
    except BringupError as error:
        raise InputError(str(path), error.reason, "correct the file") from None


def _wrong_in(spec: CheckSpec) -> tuple[str, str] | None:
    """Return the field of a specification that cannot be used, with the correction. mypy finds these errors in ours."""
    for name, kind in (("per", SubjectKind), ("disturbs", Disturbance)):
        found = getattr(spec, name)
        if not isinstance(found, kind):
            return (
                f"{name} {found!r}, expected one of {kind.__name__}",
                f"{name}={kind.__name__}.<one of {', '.join(kind.__members__)}>",
            )
    causes: Any = spec.causes
    rules: Any = spec.applies
    if not isinstance(causes, tuple) or not all(isinstance(text, str) for text in causes):
        return f"causes {causes!r}, expected a tuple of texts", 'causes=("...",)'
    if not isinstance(rules, tuple) or not all(isinstance(rule, Applies) for rule in rules):
        return (
            f"applies {rules!r}, expected a tuple of rules",
            'applies=(needs("kubernetes"),)',
        )
    if not all(isinstance(word, str) for word in spec.requires):
        return f"needs{spec.requires!r}, expected texts", 'applies=(needs("kubernetes"),)'
    gates = {spec.gate, STACK_GATE} if spec.needs_driver else {spec.gate}
    known = [phase for phase, own in PHASE_GATES.items() if gates & set(own)]
    if spec.phase and spec.phase not in known:
        # No phase would judge the check, and no message would report it.
        default = GATE_PHASE.get(spec.gate, "none")
        hint = f"one of {', '.join(known) or 'none'}; without it the phase is that of its gate ({default})"
        return f"phase {spec.phase!r}, which gate {spec.gate} has not", hint
    return None


def _settings_problems(check: AnyCheck, path: Path) -> list[BringupError]:
    if check.spec.settings is None:
        return []
    try:
        settings_in(check.spec.settings)
    except Exception as error:  # noqa: BLE001 - a class that is no settings class fails in many ways
        text = f"its settings {check.spec.settings!r} cannot be read: {type(error).__name__}: {error}"
        return [InputError(str(path), f"{text[:300]}.", "a frozen dataclass whose fields are setting(...)")]
    return []


def site_limit_s(observer: Observer[Any]) -> float:
    """Return the time limit in seconds of an observer of a site's own check, 0 for ours: those end by their own
    limits."""
    observe: Any = observer.observe
    while isinstance(observe, partial):
        observe = observe.func
    modules = (str(getattr(own, "__module__", "")) for own in (observe, observer.result))
    return LONGEST_S if any(module.startswith(_PACKAGE) for module in modules) else 0.0


def _not_imported(path: Path, error: BaseException) -> BringupError:
    line: Any = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    if line is None:
        import traceback

        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = frames[-1] if frames else None
    place = f"{path}:{line}" if line else str(path)
    text = " ".join(str(error).split())[:300]
    return InputError(place, f"cannot be imported: {type(error).__name__}: {text}.", "correct the file")


def clashes(
    found: SiteChecks, ours: Sequence[AnyCheck], observers: dict[str, dict[str, Observer[Any]]]
) -> list[BringupError]:
    """Return the problems of ids of checks, and of keys of observers within a gate, that are used twice."""
    problems: list[BringupError] = []
    known = {check.spec.id: "this collection" for check in ours}
    keys: dict[tuple[str, str], tuple[Observer[Any], str]] = {
        (gate, key): (observer, "this collection")
        for gate, named in observers.items()
        for key, observer in named.items()
    }
    for check, file in zip(found.checks, found.files, strict=True):
        if check.spec.id in known:
            text = f"its id {check.spec.id!r} is that of a check of {known[check.spec.id]}."
            problems.append(InputError(file, text, "give it, and its file, a name of its own"))
        known.setdefault(check.spec.id, file)
        place = (check.spec.gate, check.observer.key)
        other, owner = keys.setdefault(place, (check.observer, file))
        if other is not check.observer:
            text = f"its observer {check.observer.key!r} has the key of another one of {owner}."
            problems.append(InputError(file, text, "import that one, or give it a key of its own"))
    return problems
