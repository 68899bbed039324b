# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check clock-sync: the clock follows a time source closely enough.

Parser of `ntpq -n -c rv` (ntpd, NTPsec): the system variables, as NTP's manual of ntpq lists them.

It prints `associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,` and then `name=value` pairs; the offset is
in milliseconds, and so are rootdelay and rootdisp. Without a source it prints `sync_unspec`, leap=11 and stratum=16;
with its own clock as the source (127.127.1.x, the driver LOCL) `sync_local`.

Parser of the log of phc2sys (linuxptp), which sets the system's clock by the adapter's.

A line reads `phc2sys[359.907]: CLOCK_REALTIME phc offset -20 s2 freq +10469 delay 37`: nanoseconds, and s2 says locked.

Parser of `timedatectl show` (systemd): whether a time service is on and the kernel's clock is synchronised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median, median_low

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .uniform import each_once, shared_outcome

_TOOL = "ntpq -n -c rv"
_STATUS = re.compile(r"\bstatus=[0-9a-f]{4} (leap_\w{1,20}|sync_alarm), (sync_\w{1,20})")
_LEAP = re.compile(r"(?:^|[,\s])leap=(\d{1,2})(?=[,\s]|$)")
_STRATUM = re.compile(r"(?:^|[,\s])stratum=(\d{1,3})(?=[,\s]|$)")
_OFFSET = re.compile(r"(?:^|[,\s])offset=([+-]?\d{1,12}(?:\.\d{1,12})?)(?=[,\s]|$)")
_ALARM = ("11", "3")
_ROOT_DELAY, _ROOT_DISPERSION = (
    re.compile(rf"(?:^|[,\s]){name}=(\d{{1,12}}(?:\.\d{{1,12}})?)(?=[,\s]|$)") for name in ("rootdelay", "rootdisp")
)
_NO_SOURCE, _NTPQ_UNSYNCHRONISED = ("sync_unspec", "sync_local"), 16


@dataclass(frozen=True, slots=True)
class NtpDaemon:
    """`synchronised`: the daemon follows a source; `offset_s` is that of the clock to it, `error_bound_s` how far the
    clock may be off (RFC 5905: offset, root dispersion and half of the root delay)."""

    synchronised: bool
    stratum: int
    offset_s: float
    error_bound_s: float


def parse_ntpq(text: str) -> NtpDaemon:
    """Return what the daemon says of the clock.

    Raises:
        InputError: the line of the status, leap, stratum, root delay, root dispersion or offset is missing.
    """
    clean = plain(text)
    status = _STATUS.search(clean)
    leap, stratum, offset, delay, dispersion = (
        match[1] if (match := each.search(clean)) else None
        for each in (_LEAP, _STRATUM, _OFFSET, _ROOT_DELAY, _ROOT_DISPERSION)
    )
    if status is None or leap is None or stratum is None or offset is None or delay is None or dispersion is None:
        raise unreadable(_TOOL, clean[:80], "status=, leap=, stratum=, rootdelay=, rootdisp= and offset= of the daemon")
    level = int(stratum)
    follows = leap not in _ALARM and status[2] not in _NO_SOURCE and 0 < level < _NTPQ_UNSYNCHRONISED
    bound_ms = abs(float(offset)) + float(dispersion) + float(delay) / 2
    return NtpDaemon(synchronised=follows, stratum=level, offset_s=float(offset) / 1000, error_bound_s=bound_ms / 1000)


_PHC2SYS_TOOL = "journalctl -u 'phc2sys*'"
_LINE = re.compile(r"phc2sys\[[\d.]+\]:.*\bCLOCK_REALTIME\s+(?:phc|sys)\s+offset\s+(-?\d{1,18})\s+s([0-3])\s+freq\b")


@dataclass(frozen=True, slots=True)
class PtpClock:
    """The last line of the log: `offset_s` is that of the system's clock, `locked` that it follows."""

    offset_s: float
    locked: bool


def parse_phc2sys(text: str) -> PtpClock:
    """Return the state that the last line tells.

    Raises:
        InputError: no line tells one.
    """
    found = [match for line in plain(text).splitlines() if (match := _LINE.search(line))]
    if not found:
        raise unreadable(
            _PHC2SYS_TOOL, plain(text)[-80:], "a line such as `CLOCK_REALTIME phc offset -20 s2 freq +10469`"
        )
    return PtpClock(offset_s=int(found[-1].group(1)) / 1e9, locked=found[-1].group(2) == "2")


_TIMEDATECTL_TOOL = "timedatectl show"


@dataclass(frozen=True, slots=True)
class TimeService:
    """`enabled`: a time service is active; `synchronised`: the kernel says so. It tells no offset."""

    enabled: bool
    synchronised: bool


def parse_timedatectl(text: str) -> TimeService:
    """Return what it says of the clock.

    Raises:
        InputError: one of the two lines is missing or says neither yes nor no.
    """
    fields = dict(line.split("=", 1) for line in plain(text).splitlines() if "=" in line)
    words = [fields.get(name, "") for name in ("NTP", "NTPSynchronized")]
    if not set(words) <= {"yes", "no"}:
        raise unreadable(_TIMEDATECTL_TOOL, plain(text)[:80], "NTP= and NTPSynchronized=, each yes or no")
    return TimeService(enabled=words[0] == "yes", synchronised=words[1] == "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSyncSettings:
    """Settings of check clock-sync."""

    clock_offset_s: float = setting(
        "Largest difference to the time source, either way; beyond it a person decides, of PTP it fails.",
        default=0.001,
        unit="s",
        above=0,
    )
    # chrony's README: within a few milliseconds over the Internet, tens of microseconds in a LAN.
    clock_offset_failed_s: float = setting(
        "Difference to an NTP source beyond which a clock fails.", default=0.05, unit="s", above=0
    )
    # NCCL, schedulers and certificates need no better; what asking a host takes is known to some seconds.
    fleet_offset_s: float = setting(
        "By how much the clock of a host may differ from the median of all hosts, and that from the controller's, as "
        "they are read when the hosts are asked; what asking takes is left out.",
        default=1.0,
        unit="s",
        above=0,
    )
    stratum_spread: int = setting(
        "By how much the stratum of a host may differ from the median of all hosts: a server that lost its source goes "
        "on by its own clock, at another stratum.",
        default=3,
        minimum=0,
    )
    # A healthy host on a WAN source has some 10 to 40 ms; without a source root dispersion grows by 15 ppm, 1.3 s a day
    # (RFC 5905).
    clock_error_s: float = setting(
        "Largest error that the time service allows for: offset, root dispersion and half of the root delay together "
        "(chronyc(1), RFC 5905). It grows while no source answers.",
        default=0.25,
        unit="s",
        above=0,
    )


SPEC = CheckSpec(
    id="clock-sync",
    gate="nodes",
    title="Clock synchronised",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("clock-not-synchronised", "clock-offset", "clock-daemon-down"),
    settings=ClockSyncSettings,
)
_NTP_HINT = "`ntpq -pn` on the node; check its time servers in ntp.conf"
_HINT = "`chronyc sources -v` on the node; check its time servers in chrony.conf and `systemctl restart chronyd`"
_NO_DAEMON = "506 cannot talk to daemon"
# A pending leap second is no fault.
_UNSYNCHRONISED = 16
_PTP = "ptp"
# With fewer hosts the median does not show which one is wrong.
_LEAST_HOSTS = 3
_GOOD_LEAP = ("Normal", "Insert second", "Delete second")


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host.

    An offset of 0 without a source means nothing, so leap status and stratum come first. Without chrony, another
    service that keeps the clock is equally good.
    """
    strata = sorted(found for host in context.site.in_scope if (found := _stratum(observed, host.name)) is not None)
    usual = median_low(strata) if strata else None
    offsets = {
        host.name: observed.hosts[host.name].clock_off_s
        for host in context.site.in_scope
        if host.name in observed.hosts
    }
    fleet = _fleet({name: (off[0], off[1]) for name, off in offsets.items() if off})
    apart = shared_outcome(lambda first: _controller_apart(first, fleet))

    def judge_host(host: NodeContext) -> Report | Outcome:
        result = _judge(host)
        if isinstance(result, Outcome) or result.findings:
            return result
        result = _beside_the_fleet(host, result, usual, fleet)
        limit_s = host.settings(ClockSyncSettings).fleet_offset_s
        return apart(host) if not result.findings and fleet.controller_apart(limit_s) else result

    return each_once(per_host(SPEC, observed, context, judge_host))


@dataclass(frozen=True, slots=True)
class _Offsets:
    """The least and the most seconds by which each clock may be ahead of the controller's, by host, and their
    medians."""

    by_host: Mapping[str, tuple[float, float]]
    middle: tuple[float, float]

    def apart_s(self, name: str, limit_s: float) -> float:
        """Return the seconds by which a host is certainly ahead of (negative: behind) the median of all; 0 within the
        limit."""
        if name not in self.by_host:
            return 0.0
        (least, most), (usual_least, usual_most) = self.by_host[name], self.middle
        ahead, behind = least - usual_most, most - usual_least
        return ahead if ahead > limit_s else behind if behind < -limit_s else 0.0

    def controller_apart(self, limit_s: float) -> bool:
        """Whether the hosts agree on another time than the controller's."""
        least, most = self.middle
        return least > limit_s or most < -limit_s


def _fleet(by_host: Mapping[str, tuple[float, float]]) -> _Offsets:
    """Return the offsets with their medians.

    Two hosts have the controller as a third member; a single host is compared with the controller alone.
    """
    members = [*by_host.values(), *([(0.0, 0.0)] if len(by_host) < _LEAST_HOSTS else [])]
    if len(members) < _LEAST_HOSTS:
        return _Offsets(by_host, (0.0, 0.0))
    least, most = zip(*members, strict=True)
    return _Offsets(by_host, (median(least), median(most)))


def _controller_apart(first: NodeContext, fleet: _Offsets) -> Outcome:
    least, most = fleet.middle
    text = f"the hosts are {least:+.1f} to {most:+.1f} s ahead of the controller, by the time at which they were asked"
    hint = "`date -u` here and on a host: set the clock that is wrong, and look where its time source has its time from"
    others = tuple(node_subject(name) for name in fleet.by_host if name != first.name)
    return first.answer.marginal("clock-controller-apart", text, hint, more_subjects=others)


def _stratum(observed: FleetFacts, name: str) -> int | None:
    """Return the stratum of a host whose clock follows a source, else None."""
    if name not in observed.hosts:
        return None
    clock, daemon = observed.hosts[name].clock, observed.hosts[name].read("ntp", NtpDaemon)
    found = daemon if isinstance(clock, ProbeFailure) else clock
    return found.stratum if not isinstance(found, ProbeFailure) and 0 < found.stratum < _UNSYNCHRONISED else None


def _beside_the_fleet(host: NodeContext, report: Report, usual: int | None, fleet: _Offsets) -> Report:
    """Return the report with what only the comparison with other hosts shows.

    A clock that is good by itself may show another time than theirs, or follow another kind of source.
    """
    apart_s = fleet.apart_s(host.name, host.settings(ClockSyncSettings).fleet_offset_s)
    if apart_s:
        where = "ahead of" if apart_s > 0 else "behind"
        text = f"the clock is {abs(apart_s):.1f} s or more {where} those of most hosts and the controller"
        hint = (
            f"`date -u` on {host.name} and another host; `chronyc sources -v` names its server, whose time is another"
        )
        return replace(report, findings=(Finding(cause="clock-off-fleet", text=text, hint=hint, marginal=True),))
    mine, spread = _stratum(host.seen, host.name), host.settings(ClockSyncSettings).stratum_spread
    if mine is None or usual is None or abs(mine - usual) <= spread:
        return report
    text = f"stratum {mine}, and {usual} on most hosts: its server may follow no source but its own clock"
    hint = "`chronyc sources -v` on the node names its server; look there for the source that it lost"
    return replace(report, findings=(Finding(cause="clock-stratum-far", text=text, hint=hint, marginal=True),))


def _judge(host: NodeContext) -> Report | Outcome:
    clock = host.facts.clock
    if isinstance(clock, ProbeFailure):
        other = _other_service(host, clock)
        if other is not None:
            return other
        if _NO_DAEMON in clock.text.lower():
            text = "chronyd does not run (506 Cannot talk to daemon)"
            return host.answer.failed(
                "clock-daemon-down",
                text,
                "`systemctl enable --now chrony` on the node",
                evidence=host.evidence("clock"),
            )
        return host.tool_failure("clock", clock)
    lost = clock.leap_status not in _GOOD_LEAP or not 0 < clock.stratum < _UNSYNCHRONISED
    reported = f"leap status {clock.leap_status!r}, stratum {clock.stratum}" if lost else ""
    if clock.local:
        reported = f"chronyd follows no source: reference {clock.reference} is its own clock (local mode)"
    return _offset(
        host, clock.offset_s, lost=reported, hints=(_HINT, _HINT), source="clock", stratum=clock.stratum,
        error_bound_s=clock.error_bound_s,
    )  # fmt: skip


def _offset(
    host: NodeContext,
    offset_s: float,
    *,
    lost: str,
    hints: tuple[str, str],
    source: str,
    stratum: int | None = None,
    by: str = "",
    error_bound_s: float = 0.0,
) -> Report:
    """Return the report about a clock whose offset a time service reports.

    Args:
        host: the host.
        offset_s: seconds off its source.
        lost: why it follows no source; empty if it does.
        hints: what to do about a lost source, and about an offset.
        source: the fact that has all this.
        stratum: the stratum that the service reports, None for none.
        by: the service, where it is not the usual one.
        error_bound_s: seconds by which the clock may be off, from the delay and dispersion that the service reports.
    """
    limit = host.settings(ClockSyncSettings).clock_offset_s
    findings: tuple[Finding, ...] = ()
    if lost:
        findings = (Finding(cause="clock-not-synchronised", text=lost, hint=hints[0]),)
    elif abs(offset_s) > limit:
        text = f"clock is {offset_s * 1000:+.3f} ms off, allowed {limit * 1000:g} ms"
        failed = source == _PTP or abs(offset_s) > host.settings(ClockSyncSettings).clock_offset_failed_s
        cause = "clock-offset" if failed else "clock-offset-marginal"
        findings = (Finding(cause=cause, text=text, hint=hints[1], marginal=not failed),)
    elif error_bound_s > (allowed := host.settings(ClockSyncSettings).clock_error_s):
        text = f"the clock may be {error_bound_s:.3g} s off (root dispersion and delay), allowed {allowed:g} s"
        findings = (Finding(cause="clock-stale", text=text, hint=hints[0], marginal=True),)
    words = (f"{offset_s * 1e6:+.1f} us off", "" if stratum is None else f"stratum {stratum}", by)
    measured = (Measure("offset", offset_s, "s"), *(() if stratum is None else (Measure("stratum", stratum),)))
    return Report(
        summary=", ".join(word for word in words if word),
        findings=findings,
        measured=measured,
        expected=(Expectation("offset", "<=", limit, Basis.RULE, "s"),),
        evidence=host.evidence(source),
    )


def _other_service(host: NodeContext, chrony: ProbeFailure) -> Report | None:
    """Return what PTP or another time service reports, where chrony is missing or its daemon does not run."""
    if chrony.kind != "missing" and _NO_DAEMON not in chrony.text.lower():
        return None
    ptp, service = host.facts.read("ptp", PtpClock), host.facts.read("time_service", TimeService)
    if isinstance(ptp, PtpClock):
        lost = "" if ptp.locked else "phc2sys is not locked to the adapter's clock"
        hints = ("`journalctl -u ptp4l -u phc2sys` on the node", "`journalctl -u phc2sys` on the node")
        return _offset(host, ptp.offset_s, lost=lost, hints=hints, source=_PTP, by="by PTP")
    daemon = host.facts.read("ntp", NtpDaemon)
    if isinstance(daemon, NtpDaemon):
        lost = "" if daemon.synchronised else f"ntpd follows no source (stratum {daemon.stratum})"
        hints = (_NTP_HINT, _NTP_HINT)
        return _offset(
            host, daemon.offset_s, lost=lost, hints=hints, source="ntp", stratum=daemon.stratum, by="by ntpd",
            error_bound_s=daemon.error_bound_s,
        )  # fmt: skip
    if not isinstance(service, TimeService) or not service.enabled:
        return None
    text, hint = "a time service is on and the clock is not synchronised", "`timedatectl timesync-status` on the node"
    bad = (Finding(cause="clock-not-synchronised", text=text, hint=hint),)
    return Report(
        summary="kept by a time service that tells no offset (timedatectl: NTPSynchronized=yes)",
        findings=() if service.synchronised else bad,
        expected=(Expectation("synchronised", "==", "yes", Basis.RULE),),
        evidence=host.evidence("time_service"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
