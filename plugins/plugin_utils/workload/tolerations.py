# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which taints the pods of tests tolerate: those that platforms put on GPU nodes, and those that the site states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..clients.kube.taints import taint_text
from ..outcome.errors import InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode, read_yaml

_TEXT = re.compile(r"(?P<key>[^=:\s]+)(?:=(?P<value>[^=:\s]*))?(?::(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint that pods tolerate; without key, value or effect any counts. `sources` are who sets it."""

    key: str
    value: str | None = None
    effect: str = ""
    sources: tuple[str, ...] = ()

    def covers(self, taint: Mapping[str, Any]) -> bool:
        """Tell whether it tolerates a taint of a node."""
        return (
            self.key in ("", taint.get("key"))
            and self.value in (None, str(taint.get("value") or ""))
            and self.effect in ("", taint.get("effect"))
        )

    @property
    def body(self) -> dict[str, str]:
        """What a pod says."""
        operator = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.key, **operator, **({"effect": self.effect} if self.effect else {})}


@cache
def known_tolerations() -> tuple[Toleration, ...]:
    """Return those for the taints of platforms (recipes/workloads/tolerations.yaml)."""
    path = RECIPES / "workloads" / "tolerations.yaml"
    return decode(tuple[Toleration, ...], read_yaml(path), str(path))


def tolerations_with(stated: Iterable[str], where: str = "settings of gpu_stack") -> tuple[Toleration, ...]:
    """Return the known tolerations and those that a site states as `key`, `key=value` or `key=value:effect`.

    Raises:
        InputError: a text has another form.
    """
    found = []
    for text in stated:
        match = _TEXT.fullmatch(text)
        if match is None:
            hint = "write it as kubectl describe node prints the taint: key=value:NoSchedule"
            raise InputError(where, f"toleration {text!r} is not key[=value][:effect].", hint)
        found.append(Toleration(key=match["key"], value=match["value"], effect=match["effect"] or ""))
    return (*known_tolerations(), *found)


def toleration_of(body: Mapping[str, str]) -> Toleration:
    """Return what a pod tolerates. Of operators beyond `Equal` and `Exists` the value is not compared."""
    value = body.get("value", "") if body.get("operator", "Equal") == "Equal" else None
    return Toleration(key=body.get("key", ""), value=value, effect=body.get("effect", ""))


def repelling(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Toleration]) -> tuple[str, ...]:
    """Return the taints of a node that keep the pods of tests away, as texts."""
    known = tuple(tolerations)
    return tuple(
        taint_text(taint)
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(entry.covers(taint) for entry in known)
    )
