# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `scontrol show nodes`, as text and as JSON: state, flags and reason of every node of Slurm.

Text is the same from Slurm 17.11 to 25.11: `NodeName=...` begins a node, `State=IDLE+DRAIN` has the base state first,
and `Reason=text [user@time]` ends it. JSON differs: up to 22.05 `state` is a word and `state_flags` a list, from 23.02
on `state` is a list of both; times are numbers, from 23.11 on `{"set": true, "infinite": false, "number": 1}`. Its node
list is also that of `sinfo --json` up to 22.05, whose scontrol has no JSON, and of slurmrestd. Flag BLOCKED of 25.05 is
only in the text (SchedMD/slurm, src/common/slurm_protocol_defs.c: node_state_flag_string), so the text decides.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .text import document, plain, unreadable

TOOL = "scontrol show nodes"
BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE", "INVALID", "INVAL"})
# A node with these flags still takes jobs. Every other flag, also an unknown one, means that it is not free.
HARMLESS_FLAGS = frozenset({"CLOUD", "DYNAMIC_NORM", "PERFCTRS"})
# With these a node takes no jobs although it was not drained (SchedMD/slurm, scontrol.1: State).
_DOWN_FLAGS = frozenset({"NOT_RESPONDING", "FAIL", "INVALID_REG", "POWERED_DOWN"})
# Meaning of the last character of a state in text (scontrol.1, sinfo.1).
_SIGNS = {
    "*": "NOT_RESPONDING",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "~": "POWERED_DOWN",
    "!": "POWER_DOWN",
    "+": "COMPLETING",
    "-": "PLANNED",
}
_NAME = re.compile(r"NodeName=([^\s=]{1,255})(?=\s|$)")
_STATE = re.compile(r"(?:^|\s)State=([A-Z_+*$@^#%~!-]{2,400})(?=\s|$)")
_REASON = re.compile(r"(?:^|\s)Reason=([^\n]*)")
_SET_BY = re.compile(r" \[([^\s\[\]@]{1,64})@([0-9T:-]{10,32}|Unknown)\]")
_VERSION = re.compile(r"\sVersion=(\S{1,64})")
_GRES = re.compile(r"(?:^|\s)Gres=(\S{1,2000})")
_PARTITIONS = re.compile(r"(?:^|\s)Partitions=(\S{1,4000})")
_NOTHING = ("", "(null)", "none", "N/A")
# A comma within parentheses belongs to the sockets of one resource: `gpu:8(S:0,2)`.
_BETWEEN = re.compile(r",(?![^()]*\))")
_RESOURCE = re.compile(r"([^\s:(),]{1,128}(?::[^\s:(),]{1,128}){0,3})(?:\([^()]{1,400}\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node as the controller of Slurm reports it.

    - `base`: its base state. `flags` are all others.
    - `reason`: without the user who set it (`reason_by`); empty if there is none.
    - `gres`: as configured.
    - `version`: of its slurmd, empty if it never registered.
    - `partitions`: partitions that it belongs to.
    """

    name: str
    base: str
    flags: frozenset[str] = frozenset()
    reason: str = ""
    reason_by: str = ""
    gres: str = ""
    version: str = ""
    partitions: frozenset[str] = frozenset()

    @property
    def draining(self) -> bool:
        """Whether it takes no new jobs. A drained node still has the base state IDLE."""
        return "DRAIN" in self.flags

    @property
    def down(self) -> bool:
        """Whether it takes no jobs although it was not drained."""
        return self.base not in ("IDLE", "ALLOCATED", "MIXED") or bool(self.flags & _DOWN_FLAGS)

    @property
    def busy(self) -> bool:
        """Whether jobs run on it, or are ending. An unknown base state counts as busy."""
        return self.base not in ("IDLE", "DOWN", "FUTURE") or "COMPLETING" in self.flags

    @property
    def free(self) -> bool:
        """Whether it is idle, responds, and takes jobs."""
        return self.base == "IDLE" and not self.flags - HARMLESS_FLAGS

    @property
    def state(self) -> str:
        """State as `scontrol` prints it: `IDLE+DRAIN`."""
        return "+".join((self.base, *sorted(self.flags)))

    @property
    def gpus(self) -> int | None:
        """Number of GPUs that Slurm allocates here, None if its configuration has none.

        Raises:
            InputError: its generic resources have an unknown form.
        """
        return gpus_in(self.gres)


def gpus_in(gres: str) -> int | None:
    """Return the number of GPUs in a list of generic resources; None if there is none.

    The list is from slurm.conf, followed by the sockets once the node has registered: `gpu:8`, `gpu:h100:8(S:0-1)`,
    `gpu:a100:4(S:0),gpu:a30:2(S:1)`, `gpu:h100:no_consume:8`, `gpu` for one (slurm.conf.5, gres.conf.5).

    Raises:
        InputError: a resource has an unknown form.
    """
    counts = []
    for entry in _BETWEEN.split(gres) if gres else ():
        match = _RESOURCE.fullmatch(entry)
        if match is None:
            raise unreadable(TOOL, f"Gres={gres}", "resources as in `gpu:h100:8(S:0-1)`")
        name, *words = match.group(1).split(":")
        if name != "gpu":
            continue
        last = words[-1] if words else "1"
        if last.isdecimal():
            counts.append(int(last))
        elif len(words) == 1 and not last[0].isdecimal():
            counts.append(1)
        else:
            raise unreadable(TOOL, f"Gres={gres}", "a number of GPUs as in `gpu:h100:8(S:0-1)`")
    return sum(counts) if counts else None


def parse(text: str) -> tuple[SlurmNode, ...]:
    """Return the nodes of `scontrol show nodes`, with or without `-o`.

    Raises:
        InputError: no node, a node without a state, a state that Slurm does not have, or a name twice.
    """
    clean = plain(text)
    starts = [match.start() for match in _NAME.finditer(clean) if _begins_line(clean, match.start())]
    if not starts or clean[: starts[0]].strip():
        raise unreadable(TOOL, clean.strip()[:80] or "nothing", "`NodeName=` of a node")
    return _distinct([_from_text(clean[at:to]) for at, to in zip(starts, [*starts[1:], len(clean)], strict=True)])


def _begins_line(text: str, at: int) -> bool:
    line = text.rfind("\n", 0, at) + 1
    return not text[line:at].strip()


def _from_text(block: str) -> SlurmNode:
    name = _NAME.match(block)
    reason = _REASON.search(block)
    head = block[: reason.start()] if reason else block
    state, gres, version = _STATE.search(head), _GRES.search(head), _VERSION.search(head)
    if name is None or state is None:
        raise unreadable(TOOL, block[:80], "`NodeName=` and `State=` of the node")
    members = _PARTITIONS.search(head)
    reported = reason.group(1) if reason else ""
    by = _SET_BY.search(reported)
    base, flags = _state_words(state.group(1))
    return SlurmNode(
        name=name.group(1),
        base=base,
        flags=flags,
        reason=_reported(reported[: by.start()] if by else reported),
        reason_by=by.group(1) if by else "",
        gres=_reported(gres.group(1)) if gres else "",
        version=_reported(version.group(1)) if version else "",
        partitions=frozenset(members.group(1).split(",") if members and _reported(members.group(1)) else ()),
    )


def _state_words(text: str) -> tuple[str, frozenset[str]]:
    base, *flags = [word for word in text.split("+") if word] or [""]
    found = set[str]()
    # `DOWN*` of older releases: the character follows the base state.
    while base and base[-1] in _SIGNS:
        found.add(_SIGNS[base[-1]])
        base = base[:-1]
    if text.endswith("+"):
        found.add("COMPLETING")
    return _base(base), frozenset(found | {flag.rstrip("".join(_SIGNS)) for flag in flags})


def _base(word: str) -> str:
    if word not in BASES:
        raise unreadable(TOOL, f"state {word}", f"a state of {', '.join(sorted(BASES))}")
    return word


def parse_json(text: str) -> tuple[SlurmNode, ...]:
    """Return the nodes of `scontrol show nodes --json`, slurmrestd, or `sinfo --json` up to 22.05.

    Raises:
        InputError: no JSON, errors in it, no list of nodes, or a node without name or state.
    """
    try:
        answer = json.loads(document(text))
    except (ValueError, RecursionError):
        raise unreadable(f"{TOOL} --json", text[:80], "JSON") from None
    if not isinstance(answer, dict) or answer.get("errors"):
        reported = answer.get("errors") if isinstance(answer, dict) else answer
        raise unreadable(f"{TOOL} --json", str(reported)[:160], "an answer without errors")
    nodes = answer.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        found = "`sinfo`, which counts nodes and does not list them" if "sinfo" in answer else str(sorted(answer)[:8])
        raise unreadable(f"{TOOL} --json", found, "a list `nodes` with at least one node")
    return _distinct([_from_json(node) for node in nodes])


def _from_json(node: Any) -> SlurmNode:
    name, state = (node.get("name"), node.get("state")) if isinstance(node, dict) else (None, None)
    words = [state] if isinstance(state, str) else state
    if not isinstance(name, str) or not name or not isinstance(words, list) or not words:
        raise unreadable(f"{TOOL} --json", str(node)[:80], "a name and a state of each node")
    flags = [*words, *(node.get("state_flags") or [])]
    if not all(isinstance(word, str) and word for word in flags):
        raise unreadable(f"{TOOL} --json", str(flags)[:80], "words in state and state_flags")
    upper = [word.upper() for word in flags]
    return SlurmNode(
        name=name,
        base=_base(upper[0]),
        flags=frozenset(upper[1:]),
        reason=_reported(node.get("reason")),
        reason_by=_reported(node.get("reason_set_by_user")),
        gres=_reported(node.get("gres")),
        version=_reported(node.get("version")),
        partitions=frozenset(filter(None, map(_reported, node.get("partitions") or ()))),
    )


def _reported(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return "" if text in _NOTHING else text


def _distinct(nodes: list[SlurmNode]) -> tuple[SlurmNode, ...]:
    names = [node.name for node in nodes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise unreadable(TOOL, f"node {twice} twice", "every node once")
    return tuple(nodes)
