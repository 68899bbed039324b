# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tools that run on hosts: recipes/gates/<gate>/tools.yaml, and recipes/tools.yaml, which explains every field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from ..outcome.errors import InputError
from .files import RECIPES, gate_files
from .strict import decode, nearest_hint, read_yaml

FailureKind = Literal["missing", "timeout", "empty", "garbage", "failed", "not-collected", "held", "in-use"]
Part = Literal["host_probe", "fabric_probe", "node_pod"]
FAILURE_KINDS: tuple[FailureKind, ...] = (
    "missing", "timeout", "empty", "garbage", "failed", "not-collected", "held", "in-use",
)  # fmt: skip
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCommand:
    """How a driver tool runs in a pod of the operator: `app` is the pod's label."""

    app: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTool:
    """One tool."""

    name: str
    used_by: Part
    commands: tuple[tuple[str, ...], ...]
    parser: str
    reports: str
    package: str
    owner: str = ""
    cause: str = ""
    fact: str = ""
    pod: PodCommand | None = None
    node_pod: tuple[str, ...] = ()
    timeout_s: float = _TIMEOUT_S
    needs_root: bool = False
    loads_gpus: bool = False
    after: str = ""
    beside: str = ""
    port_options: tuple[str, ...] = ()
    rc_is_answer: bool = False
    may_be_cut: bool = False
    again: bool = False
    shown: str = ""
    healthy: str = ""
    advice: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.commands or not all(self.commands):
            raise InputError(f"tool {self.name}", "has no command.", "state commands: [[program, argument]]")
        if self.used_by == "fabric_probe" and len(self.port_options) not in (1, 2):
            reason = f"port_options are {list(self.port_options)}, expected those of adapter and port, or one of both."
            raise InputError(f"tool {self.name}", reason, "state port_options: [-C, -P]")
        if bool(self.owner) != bool(self.cause):
            reason = f"owner is {self.owner!r} and cause {self.cause!r}."
            raise InputError(f"tool {self.name}", reason, "state both, or none where no check needs it")
        unknown = sorted(set(self.advice) - set(FAILURE_KINDS))
        if unknown:
            reason = f"advice for {', '.join(unknown)}, which is no kind of failure."
            raise InputError(f"tool {self.name}", reason, nearest_hint(unknown[0], FAILURE_KINDS))

    @property
    def asks_driver(self) -> bool:
        """Whether it runs in a pod where the operator owns the driver."""
        return self.pod is not None

    @property
    def pod_command(self) -> tuple[str, ...]:
        """Command in the operator's pod, for a tool that queries the driver."""
        return (self.pod.command if self.pod is not None else ()) or self.commands[0]

    @property
    def node_command(self) -> tuple[str, ...]:
        """Command in a snapshot's pod on a node; empty for a tool that does not run there."""
        return self.commands[0] if self.used_by == "node_pod" else self.node_pod

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that its commands start."""
        return tuple(command[0] for command in self.commands)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTools:
    """All tools, and the general advice by kind of failure."""

    tools: tuple[HostTool, ...]
    advice: dict[str, str]

    def __post_init__(self) -> None:
        for what, words in (
            ("name", [tool.name for tool in self.tools]),
            ("fact", [tool.fact or tool.name for tool in self.tools]),
        ):
            twice = sorted({word for word in words if words.count(word) > 1})
            if twice:
                raise InputError("tools", f"{what} {', '.join(twice)} is given twice.", "rename one of them")
        missing = sorted(set(FAILURE_KINDS) ^ set(self.advice))
        if missing:
            raise InputError("advice", f"expected one for each of {', '.join(FAILURE_KINDS)}.", f"see {missing[0]}")
        names = {tool.name for tool in self.tools}
        for tool in self.tools:
            for word, other in (("after", tool.after), ("beside", tool.beside)):
                if other and other not in names:
                    raise InputError(f"tool {tool.name}", f"{word}: there is no tool {other!r}.", "correct its name")

    def used_by(self, part: Part) -> tuple[HostTool, ...]:
        """Return the tools of one part of the collection, in the order of the table."""
        return tuple(tool for tool in self.tools if tool.used_by == part)

    def of_nodes(self) -> tuple[HostTool, ...]:
        """Return the tools that run in a snapshot's pod on a node."""
        return tuple(tool for tool in self.tools if tool.node_command)

    def named(self, name: str) -> HostTool:
        """Return a tool by its name.

        Raises:
            InputError: there is none.
        """
        return self._one({tool.name: tool for tool in self.tools}, name)

    def of_fact(self, fact: str) -> HostTool:
        """Return the tool that a fact comes from.

        Raises:
            InputError: there is none.
        """
        return self._one({tool.fact: tool for tool in self.tools}, fact)

    @staticmethod
    def _one(known: Mapping[str, HostTool], word: str) -> HostTool:
        if word not in known:
            raise InputError(f"tool {word!r}", "is in no tools.yaml of recipes/.", nearest_hint(word, known))
        return known[word]


@dataclass(frozen=True, slots=True)
class _GateTools:
    tools: tuple[HostTool, ...]


@dataclass(frozen=True, slots=True)
class _Shared(_GateTools):
    advice: dict[str, str]


@cache
def load_host_tools(recipes: Path = RECIPES) -> HostTools:
    """Return the tools of the gates in their order, then those without a gate.

    Defaults are filled in: every tool has its `fact`, `shown` and all of its `advice`.

    Raises:
        InputError: a file is missing or not valid.
    """
    general = recipes / "tools.yaml"
    shared = decode(_Shared, read_yaml(general), str(general))
    of_gates = (decode(_GateTools, {"tools": read_yaml(path)}, str(path)) for path in gate_files("tools.yaml", recipes))
    tools = (*(tool for found in of_gates for tool in found.tools), *shared.tools)
    return HostTools(tools=tuple(_filled(tool, shared.advice) for tool in tools), advice=shared.advice)


def _filled(tool: HostTool, general: Mapping[str, str]) -> HostTool:
    advice = {kind: text.replace("{package}", tool.package) for kind, text in {**general, **tool.advice}.items()}
    return replace(tool, fact=tool.fact or tool.name, shown=tool.shown or " ".join(tool.commands[0]), advice=advice)
