# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which faults of an API server are survived, and for how long: the one place that decides it.

What cannot have been carried out (no connection, 429, 5xx with `Retry-After`, as client-go has it) is repeated whatever
it is. What may have been carried out (a connection that breaks, silence, 408, 5xx) is repeated only if the caller says
that repeating is safe. Time is counted for the server, not for the request: an outage has a beginning, every request
waits for the same end, and after that each gets one try. So a server that restarts costs the time that it is away, and
one that is dead for good costs its patience once and not once a request.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from ...runtime.backoff import Backoff
from .recovery import CONTROLLERS_LATE_S

_AWAY = frozenset({429, 502, 503, 504})  # the server, or the load balancer before it, has no time for anybody
_UNDECIDED = frozenset({408, 500, 502, 503, 504})  # may have been carried out
_TRIES = 10
_SILENT_TRIES = 2
# kubernetes/kubernetes#121635: a server that has just started refuses what its RBAC informers do not know yet.
SETTLING_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What became of one try. Without an answer `status` is 0.

    Attributes:
        status: HTTP status of the answer.
        sent: the request may have reached the server.
        silent: it reached the server, which did not answer in time.
        asked_s: pause that the server asks for; 0: none.
        conflict: a 409 that says that somebody else wrote at the same time (and not that the object is there already).
        renewed: credentials were read again after a 401.
        starting: a 403 that says that the server does not know everything yet.
    """

    status: int = 0
    sent: bool = True
    silent: bool = False
    asked_s: float = 0.0
    conflict: bool = False
    renewed: bool = False
    starting: bool = False

    @property
    def undecided(self) -> bool:
        """Whether nobody knows if the request was carried out."""
        return self.status in _UNDECIDED if self.status else self.sent


@dataclass(slots=True)
class Outage:
    """Since when a server does not answer; shared by everybody who talks to it."""

    patience_s: float
    over_at: float | None = None  # when the last one ended (time.monotonic)
    away_s: float = 0.0  # how long all that ended lasted
    _since: float | None = None
    _missing: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, fault: Fault) -> None:
        """Take in how a try went: without an answer the server is away, with one it is back."""
        with self._lock:
            if not fault.status or fault.status in _AWAY:
                self._since = time.monotonic() if self._since is None else self._since
            elif self._since is not None:
                self.over_at = time.monotonic()
                self.away_s += self.over_at - self._since
                self._since = None

    @property
    def settling(self) -> bool:
        """Whether the server came back a moment ago."""
        with self._lock:
            return self.over_at is not None and time.monotonic() - self.over_at < SETTLING_S

    @property
    def recovering(self) -> bool:
        """Whether the server came back so lately that controllers, schedulers and kubelets may not have."""
        with self._lock:
            return self.over_at is not None and time.monotonic() - self.over_at < CONTROLLERS_LATE_S

    def late_s(self, away_before_s: float) -> float:
        """Return the seconds that what others do has lost since `away_s` was so many: the server was away, and they
        came back later than it."""
        lost_s = self.away_s - away_before_s
        return lost_s + CONTROLLERS_LATE_S if lost_s > 0 else 0.0

    def awaits(self, what: str, limit_s: float = CONTROLLERS_LATE_S) -> bool:
        """Tell whether to look again for what is not there and should be: a server may have been away before anybody
        here asked it, and what comes back after it comes later. Time is counted for the thing, whoever looks for it."""
        with self._lock:
            since = self._missing.setdefault(what, time.monotonic())
        return self.recovering or time.monotonic() - since < limit_s

    @property
    def awaits_roles(self) -> bool:
        """Whether to ask again a server that says that it has just started."""
        return self.awaits("roles", SETTLING_S)

    def came(self, what: str) -> bool:
        """Note that it is there; tell whether it was missed before."""
        with self._lock:
            return self._missing.pop(what, None) is not None

    def left_s(self, started: float) -> float:
        """Return the seconds that a request of that moment may still be repeated."""
        with self._lock:
            since = started if self._since is None else min(self._since, started)
        return max(0.0, since + self.patience_s - time.monotonic())


@dataclass(slots=True)
class Tries:
    """The tries of one request."""

    outage: Outage
    patient: bool = True  # wait for a server that says that it has no time as for one that says nothing
    answered: int = _TRIES
    silent: int = _SILENT_TRIES
    unsure: bool = False
    made: int = 0
    # As many as of other answers, counted apart: another fault between refusals must not have the last word.
    refused: int = field(init=False)
    started: float = field(default_factory=time.monotonic)
    _backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        """Count refusals apart."""
        self.refused = self.answered

    @property
    def text(self) -> str:
        """What was tried, for messages; empty after a single try."""
        return f" ({self.made} tries in {time.monotonic() - self.started:.0f} s)" if self.made > 1 else ""

    def again(self, fault: Fault, *, repeatable: bool) -> bool:
        """Wait for the next try, or return False if there is none.

        Args:
            fault: how the last one went.
            repeatable: doing the same twice is as good as doing it once.
        """
        self.made += 1
        self.outage.note(fault)
        if not self._worth_it(fault, repeatable):
            return False
        self.unsure |= fault.undecided
        left_s = self.outage.left_s(self.started)
        if left_s <= 0:
            return False
        time.sleep(min(self._backoff.pause_s(fault.asked_s), left_s))
        return True

    def _worth_it(self, fault: Fault, repeatable: bool) -> bool:
        if fault.silent:
            self.silent -= 1
            return repeatable and self.silent > 0
        if not fault.status:
            return repeatable or not fault.sent
        if fault.status == 403:
            self.refused -= 1
            # Who asks a server for the first time cannot have seen that it was away.
            return self.refused > 0 and (self.outage.settling or (fault.starting and self.outage.awaits_roles))
        # 429 is the API server's own word, never that of a kubelet or a service behind it.
        if not (fault.status in _AWAY and (self.patient or fault.status == 429)):
            self.answered -= 1
        if self.answered <= 0:
            return False
        if fault.status == 429 or fault.renewed or fault.conflict:
            return True
        return fault.status in _UNDECIDED and (repeatable or fault.asked_s > 0)
