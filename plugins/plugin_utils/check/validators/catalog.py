# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validator images of a site as values: the entries of its catalogue that name an image.

The form is that of the upstream tool (NVIDIA/aicr, "Validator Development Guide": name, phase, image, timeout, args,
env, resources), so its catalogues are read as they are. Two more keys are ours: `rules` is what its account may do in
the namespace of its run, and `disturbs: false` means that it may run beside others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...outcome.errors import InputError
from ...outcome.gates import READINESS
from ...runtime.redaction import holds_mask, redact_data

if TYPE_CHECKING:
    from ...recipe.model import Check as Entry

DEFAULT_TIMEOUT_S = 300.0
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,57}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
# What the job deployer of the upstream tool sets; an entry cannot override them.
OWN_VARIABLES = frozenset(
    {"AICR_SNAPSHOT_PATH", "AICR_RECIPE_PATH", "AICR_VALIDATOR_NAME", "AICR_VALIDATOR_PHASE", "AICR_RUN_ID",
     "AICR_NAMESPACE", "AICR_CHECK_TIMEOUT", "AICR_NODE_SELECTOR", "AICR_TOLERATIONS"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an account may do, in the form of a rule of a Kubernetes Role."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    @property
    def body(self) -> dict[str, list[str]]:
        """The rule as the Role API object has it."""
        return {"apiGroups": list(self.api_groups), "resources": list(self.resources), "verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorImage:
    """One validator: an image that reports its result by its exit code.

    Attributes:
        timeout_s: how long it may run.
        args: arguments of its container.
        env: variables of its container.
        resources: its limits and requests, by resource.
        rules: what its account may do in the namespace of its run. None: it gets no service account token at all.
        disturbs: it runs alone.
    """

    name: str
    phase: str
    image: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    description: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] | None = None
    disturbs: bool = True


def validator_images(
    entries: Mapping[str, Entry], ours: Collection[str]
) -> tuple[tuple[ValidatorImage, ...], tuple[str, ...]]:
    """Return the validators of a catalogue that are images.

    The second tuple has the names of those that are not run because a check of ours has that name.

    Raises:
        InputError: an entry that cannot be run as it is written.
    """
    with_image = {name: entry for name, entry in sorted(entries.items()) if entry.data.get("image")}
    found = tuple(validator_image(entry) for name, entry in with_image.items() if name not in ours)
    return found, tuple(name for name in with_image if name in ours)


def validator_image(entry: Entry) -> ValidatorImage:
    """Return the validator of one entry.

    Raises:
        InputError: the first problem of the entry, with the file that has it.
    """
    data, place = entry.data, f"{entry.file}: validator {entry.name}"
    if not _NAME.fullmatch(entry.name):
        raise InputError(
            place, "its name is no DNS label.", "letters, digits and '-', at most 59, beginning with a letter"
        )
    if entry.phase == READINESS:
        raise InputError(place, "phase readiness looks at a snapshot alone.", "deployment, conformance or performance")
    image = str(data["image"])
    if not _IMAGE.fullmatch(image):
        raise InputError(
            place, f"image {image!r} is no name of an image.", "registry/name:tag or registry/name@sha256:..."
        )
    if holds_mask(redact_data([str(word) for word in data.get("args") or ()])):
        raise InputError(f"{place}: args", "hold a secret.", "let the image read it from where it lies")
    if data.get("checks"):
        raise InputError(place, "has an image and checks of ours.", "keep one of the two")
    return ValidatorImage(
        name=entry.name,
        phase=entry.phase,
        image=image,
        timeout_s=seconds_of(str(data.get("timeout") or ""), place) or DEFAULT_TIMEOUT_S,
        description=str(data.get("description") or ""),
        args=tuple(str(word) for word in data.get("args") or ()),
        env=_env(data.get("env"), place),
        resources=_resources(data.get("resources"), place),
        rules=_rules(data["rules"], place) if data.get("rules") is not None else None,
        disturbs=bool(data.get("disturbs", True)),
    )


def seconds_of(text: str, source: str) -> float:
    """Return the seconds of a duration as recipes write it (`30m`, `1h30m`), 0 for an empty text.

    Raises:
        InputError: the text is no duration.
    """
    if not text:
        return 0.0
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise InputError(source, f"{text!r} is no duration.", "write for example 30m, 1h30m or 90s")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _env(configured: Any, place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in configured or ():
        if not isinstance(pair, Mapping) or set(pair) != {"name", "value"}:
            raise InputError(f"{place}: env", f"{pair!r} is no name with a value.", "- {name: KEY, value: text}")
        name = str(pair["name"])
        if not _VARIABLE.fullmatch(name) or name in OWN_VARIABLES:
            raise InputError(
                f"{place}: env", f"{name!r} cannot be set.", "another name; AICR_* of the contract are ours"
            )
        if holds_mask(redact_data(dict(pair))):
            # The arguments and variables of a run are saved with it, and secrets never are.
            raise InputError(f"{place}: env", f"{name} holds a secret.", "let the image read it from where it lies")
        found[name] = str(pair["value"])
    return found


def _resources(configured: Any, place: str) -> dict[str, str]:
    if not configured:
        return {}
    if not isinstance(configured, Mapping):
        raise InputError(f"{place}: resources", "is no mapping.", "{cpu: 1, memory: 1Gi}, or limits of it")
    flat = configured.get("limits") or configured.get("requests") or configured
    if not isinstance(flat, Mapping) or any(isinstance(value, Mapping | list) for value in flat.values()):
        raise InputError(f"{place}: resources", "is no mapping of amounts.", "{cpu: 1, memory: 1Gi}, or limits of it")
    return {str(name): str(amount) for name, amount in flat.items()}


def _rules(configured: Any, place: str) -> tuple[Rule, ...]:
    hint = "- {apiGroups: [''], resources: [pods], verbs: [get, list]}"
    keys = ("apiGroups", "resources", "verbs")
    if not isinstance(configured, list):
        raise InputError(f"{place}: rules", "is no list of rules of a Role.", hint)
    found = []
    for rule in configured:
        words = [rule.get(key) for key in keys] if isinstance(rule, Mapping) and set(rule) == set(keys) else []
        if not words or not all(isinstance(entry, list) and entry for entry in words):
            raise InputError(f"{place}: rules", f"{rule!r} is no rule of a Role.", hint)
        groups, resources, verbs = (tuple(str(word) for word in entry or ()) for entry in words)
        found.append(Rule(api_groups=groups, resources=resources, verbs=verbs))
    return tuple(found)
