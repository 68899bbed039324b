# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The engine: takes the nodes of a wave through their stages, and records each step in the journal.

Every action on a node can safely be repeated, and is done before it is recorded: a roll that was killed in between does
it again. Only the hold of a node is recorded first, because a failed change must not be retried by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...runtime.clock import now_utc
from ...runtime.progress import Emit, silent
from .journal import Journal, WaveDecision, next_wave
from .orchestrator import Orchestrator
from .plan import NodeState, RollEvent, RollPolicy, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """The result of the change on one node: `problem` is empty if it went well; `boot_id` is that of the running
    system.

    `kernel`, after the change: the kernel that its packages installed for the next boot, empty where they installed
    none. After the reboot: the running kernel.
    """

    problem: str = ""
    reboot: bool = False
    boot_id: str = ""
    kernel: str = ""


class Roll:
    """One roll under way."""

    def __init__(self, journal: Journal, orchestrator: Orchestrator, policy: RollPolicy, emit: Emit = silent) -> None:
        """Go on where the journal ends; `policy` is the current one, for budget and capacity."""
        self.journal, self._orchestrator, self._policy, self._emit = journal, orchestrator, policy, emit

    @property
    def states(self) -> Mapping[str, NodeState]:
        """The state of every node."""
        return self.journal.states

    def decision(self) -> WaveDecision:
        """Return the next step, without doing it."""
        return next_wave(self.journal.plan, self.journal.states, self._policy, now_utc())

    def at(self, *stages: Stage) -> tuple[str, ...]:
        """Return the nodes in these stages, in the order of the plan."""
        return tuple(place.node for place in self.journal.plan.places if self.states[place.node].stage in stages)

    def begin(self) -> WaveDecision:
        """Decide the next wave, and spare the nodes for which there is no room."""
        # A roll that died between the two steps left a node held in the journal alone.
        for node in self.at(Stage.HELD):
            self._orchestrator.hold(node, self.states[node].reason, again=True)
        decision = self.decision()
        for node, reason in decision.spared.items():
            self._leave(node, reason)
        return decision

    def drain(self, nodes: Sequence[str], unfit: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Cordon and drain the nodes, and return those to change now.

        `unfit` has by node why its change would be refused. Such a node is not taken out of service. If its change was
        begun already, it is tried again, and the refusal of that change puts the node on hold.

        A node that cannot be drained is given back untouched. The others are recorded as `changing`, so that their
        change counts as begun. Nodes of an interrupted roll are cordoned and drained again, because someone may have
        put them back into service meanwhile. Where that fails, a node that may be changed already is put on hold.
        """
        for node in self._of(nodes, Stage.PENDING, Stage.CORDONED, Stage.DRAINED):
            if problem := (unfit or {}).get(node):
                self._leave(node, f"its change would be refused: {problem}")
        begun = self._of(nodes, Stage.PENDING, Stage.CORDONED, Stage.DRAINED, Stage.CHANGING)
        for node in begun:
            problem = self._orchestrator.cordon(node)
            if problem:
                self._leave(node, problem)
            elif self.states[node].stage is Stage.PENDING:
                self._keep(node, Stage.CORDONED)
        cordoned = self._of(begun, Stage.CORDONED, Stage.DRAINED, Stage.CHANGING)
        blocked = self._orchestrator.drain(cordoned) if cordoned else {}
        for node in cordoned:
            problem = blocked.get(node, "nothing is known of its drain")
            if problem:
                self._leave(node, f"not drained: {problem}")
            elif self.states[node].stage is Stage.CORDONED:
                self._keep(node, Stage.DRAINED)
        free = self._of(begun, Stage.DRAINED, Stage.CHANGING)
        boots = self._orchestrator.boots(free) if free else {}
        for node in free:
            again = self.states[node].stage is Stage.CHANGING
            reported = ["begun again after an interruption"] if again else []
            reported += [f"it rebooted meanwhile: {text}"] if (text := self._unasked(node, boots)) else []
            self._keep(node, Stage.CHANGING, "; ".join(reported), boots=(boots.get(node, ""),))
        return self._of(begun, Stage.CHANGING)

    def _leave(self, node: str, problem: str) -> None:
        """End a node before its change. It is given back, unless a change was begun whose end is unknown."""
        if self.states[node].stage is Stage.CHANGING:
            self._hold(node, f"{problem}; its change was interrupted before")
            return
        left = self._orchestrator.give_back(node)
        self._keep(node, Stage.SPARED, f"{problem}{f'; {left}' if left else ''}")

    def changed(self, results: Mapping[str, NodeChange], *, reboots: str) -> tuple[str, ...]:
        """Record the results of the change, and return the nodes to reboot now.

        Args:
            results: by node; a node under way that is missing in it did not respond.
            reboots: `never`, `needed` or `always`: what is allowed.
        """
        changing = self.at(Stage.CHANGING)
        lifted = self._lifted(changing) if changing else {}
        boots = self._orchestrator.boots(changing) if changing else {}
        for node in changing:
            found = results.get(node, NodeChange(problem="did not answer after the change"))
            unasked = self._unasked(node, boots)
            reported = "; ".join(
                filter(None, (lifted.get(node), unasked and f"it rebooted during its change: {unasked}"))
            )
            if found.problem:
                self._hold(node, f"the change failed: {found.problem}{reported and f'; {reported}'}")
            elif found.reboot and reboots == "never":
                self._hold(node, "the change needs a reboot, which is not allowed (gpufleet_wave_reboot: never)")
            else:
                wanted = found.reboot or reboots == "always"
                if wanted and not found.boot_id:
                    self._hold(node, "a reboot is wanted, and the boot id of the running system is not known")
                else:
                    kernel = found.kernel if wanted else ""
                    self._keep(
                        node, Stage.CHANGED, reported, reboot=wanted, boot_id=found.boot_id, kernel=kernel,
                        boots=(boots.get(node, ""), found.boot_id),
                    )  # fmt: skip
        for node in self.at(Stage.CHANGED):
            state = self.states[node]
            if state.reboot:
                self._keep(node, Stage.REBOOTING, state.reason, boot_id=state.boot_id, kernel=state.kernel)
        return self.at(Stage.REBOOTING)

    def rebooted(self, results: Mapping[str, NodeChange]) -> tuple[str, ...]:
        """Record which nodes came up with another boot id, and return the nodes to verify now.

        Args:
            results: by node the boot id of its system now, empty for one that did not come up; its kernel; and as
                `problem` the part of its change that the reboot did not apply.
        """
        for node in self.at(Stage.REBOOTING):
            now, before = results.get(node, NodeChange()), self.states[node]
            if not now.boot_id:
                self._hold(node, "did not come back after its reboot")
            elif now.boot_id == before.boot_id:
                self._hold(node, f"did not reboot: its boot id is still {now.boot_id}")
            elif before.kernel and now.kernel != before.kernel:
                came = f"kernel {now.kernel}" if now.kernel else "a kernel that is not known"
                self._hold(node, f"came back with {came}, and {before.kernel} was installed: see its boot loader")
            elif now.problem:
                self._hold(node, f"not as declared after its reboot: {now.problem}")
            else:
                self._keep(node, Stage.REBOOTED, before.reason, boot_id=now.boot_id, boots=(now.boot_id,))
        return self.at(Stage.CHANGED, Stage.REBOOTED)

    def sift(self, problems: Mapping[str, str]) -> tuple[str, ...]:
        """Put nodes with a failed proof on hold, and return those that are left for the next proof.

        Args:
            problems: as with `verified`; this call gives no node back.
        """
        nodes = self.at(Stage.CHANGED, Stage.REBOOTED)
        boots = self._orchestrator.boots(nodes) if nodes else {}
        for node in nodes:
            problem = problems.get(node, "no verdict about it")
            unasked = self._unasked(node, boots)
            if unasked:
                # The proof was of a system that no longer runs.
                also = problem and f"; {problem}"
                self._hold(node, f"not verified: it rebooted since its change: {unasked}{also}")
            elif problem:
                self._hold(node, f"not verified: {problem}")
        return self.at(Stage.CHANGED, Stage.REBOOTED)

    def verified(self, problems: Mapping[str, str]) -> None:
        """Give back the nodes that passed the proof (an empty entry in `problems`), and put the others on hold.

        Args:
            problems: by node, empty for one that passed; a node that is not in it was not judged.
        """
        nodes = self.sift(problems)
        boots = self._orchestrator.boots(nodes) if nodes else {}
        for node in nodes:
            state = self.states[node]
            reported, now, known = state.reason, boots.get(node, ""), state.boots
            if state.stage is Stage.CHANGED and not reported and now in known and now != known[0]:
                # Only the host itself had reported it so far: a kubelet reports its new boot id some seconds later.
                reported = "it rebooted during its change, and the roll had not asked for it"
            self._keep(node, Stage.VERIFIED, reported)
        self.give_back()

    def give_back(self) -> None:
        """Put the verified nodes back into service."""
        for node in self.at(Stage.VERIFIED):
            reported = (self.states[node].reason, self._orchestrator.give_back(node))
            self._keep(node, Stage.RETURNED, "; ".join(filter(None, reported)))

    def abort(self) -> None:
        """End every node now. Unchanged nodes are given back; nodes that may be changed are put on hold."""
        self.give_back()
        for node in self.at(Stage.PENDING, Stage.CORDONED, Stage.DRAINED):
            # A pending node, too, may have been cordoned by a controller that died before it recorded that.
            self._leave(node, "the roll was aborted before the change")
        for node in self.at(Stage.CHANGING, Stage.CHANGED, Stage.REBOOTING, Stage.REBOOTED):
            self._hold(node, f"the roll was aborted while it was {self.states[node].stage.value}")

    def again(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Begin anew with nodes that were on hold or spared, at the request of a person; return them."""
        chosen = self._of(nodes, Stage.HELD, Stage.SPARED)
        for node in chosen:
            self._keep(node, Stage.PENDING, "asked for again")
        return chosen

    def _lifted(self, nodes: Sequence[str]) -> dict[str, str]:
        """Cordon nodes again whose cordon someone lifted; return by node what to report about it."""
        found, ours = dict[str, str](), self._orchestrator.ours(nodes)
        for node in nodes:
            if node not in ours:
                problem = self._orchestrator.cordon(node, again=True)
                found[node] = f"somebody lifted its cordon meanwhile, and it is {problem or 'cordoned again'}"
        return found

    def _unasked(self, node: str, boots: Mapping[str, str]) -> str:
        """Return that a node rebooted without a request of the roll; empty while its boot id is explained.

        Boot ids of the orchestrator are compared with each other and with those that the host itself reported. Where
        only one of both is known, or they are of different systems (simulated nodes), the result is empty.
        """
        now, known = boots.get(node, ""), self.states[node].boots
        if not now or not known or now in known:
            return ""
        return f"its boot id is {now}, was {known[-1]}, and the roll had not asked for it"

    def _of(self, nodes: Sequence[str], *stages: Stage) -> tuple[str, ...]:
        wanted = set(nodes)
        return tuple(node for node in self.at(*stages) if node in wanted)

    def _hold(self, node: str, reason: str) -> None:
        self._keep(node, Stage.HELD, reason)
        self._orchestrator.hold(node, reason)

    def _keep(
        self, node: str, stage: Stage, reason: str = "", *, reboot: bool = False, boot_id: str = "", kernel: str = "",
        boots: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Record a step. `boots` are boot ids that are explained from here on; empty ones are ignored."""
        known = () if stage is Stage.PENDING else self.states[node].boots
        explained = tuple(dict.fromkeys(filter(None, (*known, *boots))))
        event = RollEvent(
            node=node, stage=stage, reason=reason, reboot=reboot, boot_id=boot_id, kernel=kernel, boots=explained
        )
        self.journal.add(event)
        self._emit(f"{node}: {stage.value}{f': {reason}' if reason else ''}")
