# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes of Slurm in a roll: takes them out of service and gives them back.

The reason of our drain begins with our name and that of the roll. Slurm itself appends to it (`: reboot issued`), so it
is recognised by its beginning. A node with any other reason, of people, of a health check or of Slurm, is neither
drained nor resumed. Running jobs are left to finish and never cancelled. (scontrol.1, slurm.conf.5; schedmd.com)

Slurm has no conditional update: `state=drain` replaces any reason, and `state=resume` and `undrain` clear it (tried
with 22.05). So state, reason and user are read again right before each update and right after it. A drain that someone
sets after ours is kept. A drain that someone sets between the first of these reads and the update, which is the time of
one scontrol, cannot be seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...outcome.errors import InputError, UnavailableError
from ...probe.slurm_nodes import SlurmNode, parse
from ...runtime.clock import Deadline, elapsed_text
from ...runtime.process import run_command
from ...runtime.progress import Emit, Progress, silent
from ...workload.slurm_script import OWNER
from .orchestrator import Orchestrator

_COMMAND_S = 60.0
_LONGEST_REASON = 200
_AWAY = frozenset({"NOT_RESPONDING", "MAINTENANCE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "FAIL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLimits:
    """`scontrol`: the command; `timeout_s`: how long to wait for the jobs of a wave, in seconds."""

    scontrol: str = "scontrol"
    timeout_s: float = 900.0
    poll_s: float = 5.0


class SlurmNodes(Orchestrator):
    """The nodes by their names in the roll; `node_names` gives those of Slurm.

    They report no boot ids: Slurm computes BootTime anew each time, so it differs by a second without a reboot. Other
    programs are not waited for: the reason of a drain names who set it, and is read when we drain.
    """

    def __init__(
        self,
        roll: str,
        node_names: Mapping[str, str],
        limits: SlurmLimits,
        emit: Emit = silent,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Use the Slurm controller that `scontrol` of this machine is configured for."""
        self._reason = f"{OWNER}:{roll}"
        self._names, self._limits, self._emit, self._sleep = node_names, limits, emit, sleep

    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return by node why it cannot be taken into a roll, empty if it can."""
        every = {observed.name: observed for observed in parse(self._scontrol("show", "nodes"))}
        found = {node: every.get(self._names[node]) for node in nodes}
        return {
            node: "it is not in Slurm" if observed is None else self._foreign(observed)
            for node, observed in found.items()
        }

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return the nodes that this roll keeps out of service."""
        every = {observed.name: observed for observed in parse(self._scontrol("show", "nodes"))}
        return frozenset(node for node in nodes if (observed := every.get(self._names[node])) and self._ours(observed))

    def cordon(self, node: str, *, again: bool = False) -> str:
        """See Orchestrator."""
        del again
        observed = self._seen(node)
        problem = self._foreign(observed)
        if problem or self._ours(observed):
            return problem
        self._update(node, f"reason={self._reason}", "state=drain")
        # Someone else may have drained it at the same moment, with another reason.
        now = self._seen(node)
        return "" if self._ours(now) else self._foreign(now) or f"is {now.state} after `state=drain`"

    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """See Orchestrator."""
        deadline, progress = Deadline.after(self._limits.timeout_s), Progress(self._emit)
        left, done = list(nodes), dict[str, str]()
        while left:
            late = deadline.left_s <= 0
            for node in list(left):
                observed = self._seen(node)
                if not self._ours(observed):
                    done[node] = (
                        self._foreign(observed) or f"is {observed.state}, and not drained by this roll any more"
                    )
                elif not observed.busy:
                    done[node] = ""
                elif late:
                    done[node] = f"jobs still run on it ({observed.state}) after {elapsed_text(self._limits.timeout_s)}"
                if node in done:
                    left.remove(node)
            if left:
                progress.tick(f"draining {len(left)} nodes of Slurm: jobs run on {', '.join(left[:5])}")
                self._sleep(min(self._limits.poll_s, max(0.1, deadline.left_s)))
        return done

    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return what blocks each node now; nothing is changed."""
        found = {node: self._seen(node) for node in nodes}
        return {
            node: self._foreign(observed) or (f"jobs run on it ({observed.state})" if observed.busy else "")
            for node, observed in found.items()
        }

    def give_back(self, node: str) -> str:
        """See Orchestrator."""
        observed = self._seen(node)
        if self._ours(observed):
            self._update(node, "state=resume")
            observed = self._seen(node)
            # A resumed node does not respond yet; what counts is whether someone drained it in this moment.
            if not (observed.draining or observed.reason):
                return ""
            if self._ours(observed):
                return f"is {observed.state} after `state=resume`"
        left = self._foreign(observed)
        return left and f"{left}, and stays so"

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """See Orchestrator."""
        del again
        observed, words = self._seen(node), " ".join(reason.split())[:_LONGEST_REASON]
        text = f"{self._reason} held: {words}"
        if not self._ours(observed) or observed.reason.startswith(text):
            return
        # The reason alone: with `state=drain` a node that a person resumed since this read would be drained again.
        self._update(node, f"reason={text}")
        now = self._seen(node)
        if not now.draining and self._says_ours(now):
            self._update(node, "reason=")
            self._emit(f"{node}: was given back by somebody while its reason was written; it stays so")

    def _ours(self, observed: SlurmNode) -> bool:
        return observed.draining and self._says_ours(observed)

    def _says_ours(self, observed: SlurmNode) -> bool:
        return observed.reason == self._reason or observed.reason.startswith(f"{self._reason} ")

    def _foreign(self, observed: SlurmNode) -> str:
        """Return which other party keeps the node out of service; empty for none."""
        if self._ours(observed):
            return ""
        if observed.reason or observed.draining:
            by = f" by {observed.reason_by}" if observed.reason_by else ""
            return f"is {observed.state}{by}: {observed.reason or 'no reason stated'}"
        if observed.base not in ("IDLE", "MIXED", "ALLOCATED") or observed.flags & _AWAY:
            return f"is {observed.state}"
        return ""

    def _seen(self, node: str) -> SlurmNode:
        name = self._names[node]
        found = [entry for entry in parse(self._scontrol("show", "node", name)) if entry.name == name]
        if not found:
            raise InputError(f"node {node}", f"is not {name} in Slurm.", "correct gpufleet_node_name in the inventory")
        return found[0]

    def _update(self, node: str, *words: str) -> None:
        self._scontrol("update", f"nodename={self._names[node]}", *words)

    def _scontrol(self, *words: str) -> str:
        return ask_scontrol(self._limits.scontrol, *words)


def ask_scontrol(command: str, *words: str) -> str:
    """Return the output of scontrol.

    Raises:
        NotFoundError: there is no scontrol on this controller.
        UnavailableError: it refuses, or does not respond in time.
    """
    done = run_command([command, *words], _COMMAND_S)
    if done.rc != 0:
        reported = (done.stderr or done.stdout).strip()[:200] or "nothing"
        text = f"did not end within {_COMMAND_S:.0f} s." if done.timed_out else f"exit code {done.rc}: {reported}."
        raise UnavailableError(f"scontrol {' '.join(words)}", text, "try it by hand on this controller: scontrol ping")
    return done.stdout
