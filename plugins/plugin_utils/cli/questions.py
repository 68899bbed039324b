# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the flags of a command to the request of a recipe."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError, NotFoundError
from ..recipe.criteria import ORDER
from ..recipe.request import Answer, Request, answer, request_of
from .answer import note, warn

if TYPE_CHECKING:
    from ..snapshot.model import Snapshot

KEPT = "catalogues"


def request_for(arguments: Namespace) -> Request:
    """Return the request from the flags.

    Raises:
        InputError: a flag has another form than it should.
    """
    return request_and_snapshot(arguments)[0]


def request_and_snapshot(arguments: Namespace, more: frozenset[str] = frozenset()) -> tuple[Request, Snapshot | None]:
    """Return the request and the named snapshot; a snapshot of the live cluster includes the `more` collectors.

    Raises:
        InputError: a flag has another form than it should.
    """
    flags = {name: value for name in ORDER if (value := getattr(arguments, name)) is not None}
    options: dict[str, Any] = {
        "criteria": {**criteria_in(arguments.criteria or ""), **flags},
        "recipe_data": arguments.data or (),
        "set": arguments.set or (),
        "profiles": dict(_pair("--profile", text) for text in arguments.profile or ()),
        "unsupported": arguments.unsupported,
    }
    if arguments.snapshot is None:
        return replace(request_of(options), kept=kept_in(arguments)), None
    from ..features.recipe.detected import request_and_snapshot as with_snapshot

    if "://" not in arguments.snapshot and arguments.snapshot not in ("cluster", "-"):
        named_file(arguments.snapshot, "give the file that playbook snapshot wrote")
    if arguments.kubeconfig and ":" not in arguments.kubeconfig:
        named_file(arguments.kubeconfig, "correct --kubeconfig")

    place = {"snapshot": arguments.snapshot, "kubeconfig": arguments.kubeconfig, "context": arguments.context}
    request, snapshot = with_snapshot(options | place, more)
    return replace(request, kept=kept_in(arguments)), snapshot


def kept_in(arguments: Namespace) -> Path:
    """Return the directory of cached catalogues."""
    return Path(arguments.cache) / KEPT


def answered(request: Request) -> Answer:
    """Return the recipe; what was detected and the warnings are printed.

    Raises:
        BringupError: see answer.
    """
    return tell(answer(request))[0]


def tell(*found: Answer) -> tuple[Answer, ...]:
    """Print what was detected for recipes and their warnings, each once, and return the recipes."""
    detections = [each.detection for each in found if each.detection is not None]
    if detections:
        from ..features.recipe.detected import detected_lines

        note(dict.fromkeys(line for detection in detections for line in detected_lines(detection)))
    warn(dict.fromkeys(line for each in found for line in each.warnings))
    return found


def has_question(arguments: Namespace) -> bool:
    """Return whether any argument gives criteria of the recipe."""
    return bool(arguments.criteria or arguments.snapshot) or any(getattr(arguments, name) is not None for name in ORDER)


def named_file(text: str, hint: str) -> Path:
    """Return the path of a named file.

    Raises:
        NotFoundError: there is none.
    """
    path = Path(text).expanduser()
    if not path.exists():
        raise NotFoundError(text, "does not exist.", hint)
    return path


def is_criteria(text: str) -> bool:
    """Return whether a text has criteria and names no file."""
    return "=" in text and "/" not in text and not Path(text).exists()


def criteria_in(text: str) -> dict[str, Any]:
    """Return the criteria in `service=eks,accelerator=h100` or in a file.

    Raises:
        InputError: the text is neither.
    """
    if not text:
        return {}
    if is_criteria(text):
        return dict(_pair("criteria", part.strip()) for part in text.split(","))
    from ..runtime.strict import read_yaml

    data = read_yaml(named_file(text, "name a file, or write service=eks,accelerator=h100"))
    found = data.get("spec", data) if isinstance(data, dict) else data
    if not isinstance(found, dict):
        raise InputError(f"criteria {text}", "is no mapping of criteria.", "write service: eks, one on each line")
    return {str(name): value for name, value in found.items() if name not in ("apiVersion", "kind", "metadata")}


def _pair(what: str, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise InputError(f"{what} {text!r}", "has no value.", "write it as NAME=VALUE")
    return name.strip(), value.strip()


def one_path(arguments: Namespace) -> str:
    """Return the requested path, given as an argument or as an option; empty for everything.

    Raises:
        InputError: both are given.
    """
    given: Sequence[str] = [text for text in (arguments.path, arguments.selector) if text is not None]
    if len(given) > 1:
        raise InputError("--selector", f"the path is given twice: {given[0]} and {given[1]}.", "leave one of them out")
    return given[0] if given else ""
