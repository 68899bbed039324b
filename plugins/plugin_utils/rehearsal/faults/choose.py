# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From `FAULTS=` to faults: ids of the catalogue, with or without a subject, or a file of the user's own."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ...outcome.wording import first_of
from ...runtime.strict import decode, nearest, nearest_hint, read_yaml
from ..model.patch import subject_names
from ..model.spec import Fault
from ..model.values import ClusterModel
from .catalogue import FaultDefinition

LIST = "list"
# What `make` calls FAULTS= or SET=, by target.
_WORD = "gpufleet_rehearsal_faults"
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _FaultFile:
    faults: tuple[Fault, ...]


def choose_faults(
    wanted: str | Sequence[str],
    model: ClusterModel,
    catalogue: Mapping[str, FaultDefinition],
    seed: int | None = None,
) -> tuple[Fault, ...]:
    """Return the faults that were asked for, each with its subject.

    Args:
        wanted: text of `FAULTS=` or its parts: `id`, `id@subject`, or a YAML file; commas between several.
        model: the healthy cluster, for the names of what can be hit.
        catalogue: the known faults.
        seed: draws the subjects that are not named; the model's own if not given.

    Raises:
        ProblemsError: every unknown id, subject or unreadable file, with the nearest known names.
    """
    texts = wanted.split(",") if isinstance(wanted, str) else [part for text in wanted for part in text.split(",")]
    draw = random.Random(model.seed if seed is None else seed)
    problems: list[BringupError] = []
    chosen: list[Fault] = []
    for text in (text.strip() for text in texts):
        if not text:
            continue
        try:
            chosen += _chosen(text, model, catalogue, draw, {(fault.id, fault.subject) for fault in chosen})
        except ProblemsError as error:
            problems.extend(error.problems)
        except BringupError as error:
            problems.append(error)
    if problems:
        raise ProblemsError(_WORD, tuple(problems))
    return tuple(chosen)


def _chosen(
    text: str,
    model: ClusterModel,
    catalogue: Mapping[str, FaultDefinition],
    draw: random.Random,
    taken: set[tuple[str, str]],
) -> list[Fault]:
    if text.endswith((".yaml", ".yml")) or "/" in text.partition("@")[0]:
        return list(_from_file(Path(text), model))
    name, _at, subject = text.partition("@")
    definition = catalogue.get(name)
    if definition is None:
        # Of some hundred ids no list is a hint.
        near = f"{nearest_hint(name, catalogue)} " if nearest(name, catalogue) else ""
        hint = f"{near}(FAULTS=list prints all)" if near else "FAULTS=list prints all"
        raise NotFoundError(f"{_WORD} {name!r}", "is not in the catalogue.", hint)
    known = subject_names(model, definition.kind)
    if subject in known:
        hit = subject
    else:
        fitting = [other for other in known if not subject or other.startswith(f"{subject}/")]
        free = [other for other in fitting if (name, other) not in taken]
        if not free:
            raise _no_subject(text, definition, subject, known)
        hit = draw.choice(free)
    return [Fault(id=definition.id, kind=definition.kind, subject=hit, patch=definition.patch)]


def _no_subject(text: str, definition: FaultDefinition, subject: str, known: Sequence[str]) -> BringupError:
    if not known:
        return NotFoundError(f"{_WORD} {text!r}", f"the cluster has no {definition.kind}.", "choose another fault")
    if not subject:
        return InputError(f"{_WORD} {text!r}", f"every {definition.kind} has it already.", "ask for it less often")
    names = [*known[:400], *{name.partition("/")[0] for name in known[:400]}]
    near = nearest(subject, names)
    hint = nearest_hint(subject, near) if near else f"there are {first_of(known, _SHOWN)}"
    return NotFoundError(f"{_WORD} {text!r}", f"there is no {definition.kind} {subject!r}.", hint)


def _from_file(path: Path, model: ClusterModel) -> tuple[Fault, ...]:
    data: Any = read_yaml(path)
    if isinstance(data, list):
        data = {"faults": data}
    faults = decode(_FaultFile, data, str(path)).faults
    for fault in faults:
        if fault.subject not in subject_names(model, fault.kind):
            hint = nearest_hint(fault.subject, subject_names(model, fault.kind)[:400])
            raise NotFoundError(f"{path}: {fault.id}", f"there is no {fault.kind} {fault.subject!r}.", hint)
    return faults
