# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parsers of the configuration of Slurm's daemons.

The commands are `scontrol ping`, `scontrol show config`, `scontrol show partitions -o` and `sacctmgr show config`.
Lines are `Key = value` (SchedMD/slurm, src/api/config_info.c). Values of cgroup.conf are in a separate part, which
slurmctld prints only where one of its plugins uses control groups. `SLURM_VERSION` is that of slurmctld. `sacctmgr`
ends with 0 if slurmdbd does not respond, and then prints only its own configuration (tried with 22.05).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

CONFIG_TOOL, PARTITION_TOOL, DATABASE_TOOL = (
    "scontrol show config",
    "scontrol show partitions -o",
    "sacctmgr show config",
)
CGROUP = "Cgroup Support Configuration"
_HEAD = re.compile(r"^Configuration data as of \S+$", re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z][\w\[\]]{0,63})[ \t]*=[ \t]?(.*)$", re.MULTILINE)
_PART = re.compile(r"^([A-Z][A-Za-z ]{1,60}):$")
_PARTITION = re.compile(r"PartitionName=(\S{1,256}) ")
_STATE = re.compile(r" State=(UP|DOWN|DRAIN|INACTIVE)(?= |$)")
_RELEASE = re.compile(r"(\d{2})\.(\d{2})\.(\d{1,3})(?:[.\-]?\w{1,16})?")
_REFUSED = re.compile(r"failed to open persistent connection|Problem talking to the database|Connection refused")
_NOTHING = ("", "(null)", "N/A", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """Configuration of slurmctld: its values by name, and those of cgroup.conf, None if it prints none of them."""

    values: dict[str, str]
    cgroup: dict[str, str] | None = None

    def said(self, name: str) -> str:
        """Return a value, empty if it is unset.

        Raises:
            InputError: there is no such line.
        """
        if name not in self.values:
            raise unreadable(CONFIG_TOOL, f"no line {name}", f"`{name} = ...`")
        value = self.values[name].strip()
        return "" if value in _NOTHING else value

    def programs(self, name: str) -> str:
        """Return the programs of that name, empty if none is configured.

        A newer slurmctld prints a line for each, `Prolog[0]`, and none if there is none (SchedMD/slurm,
        src/api/config_info.c). An older one prints `Prolog`, whether it is set or not.
        """
        each = re.compile(rf"{name}(?:\[\d{{1,3}}\])?")
        return ", ".join(found for key in self.values if each.fullmatch(key) and (found := self.said(key)))


def parse(text: str) -> SlurmConfig:
    """Return the output of `scontrol show config` as values.

    Raises:
        InputError: its first line is missing, or the version of slurmctld.
    """
    values, parts = _values(text, CONFIG_TOOL)
    found = SlurmConfig(values=values, cgroup=parts.get(CGROUP))
    release(found.said("SLURM_VERSION"), CONFIG_TOOL)
    return found


def database_version(stdout: str, stderr: str) -> str | None:
    """Return the version of slurmdbd by `sacctmgr show config`; None if that reports slurmdbd as unavailable.

    Raises:
        InputError: it reports neither.
    """
    values, parts = _values(stdout, DATABASE_TOOL) if stdout.strip() or not _REFUSED.search(stderr) else ({}, {})
    version = {**values, **parts.get("SlurmDBD configuration", {})}.get("SLURMDBD_VERSION", "").strip()
    if not version and _REFUSED.search(stderr):
        return None
    release(version, DATABASE_TOOL)
    return version


def release(version: str, tool: str = CONFIG_TOOL) -> tuple[int, int]:
    """Return year and month of a release of Slurm, which all daemons have to share.

    Raises:
        InputError: it is no version.
    """
    match = _RELEASE.fullmatch(version)
    if match is None:
        raise unreadable(tool, version or "no version", "a version of Slurm as in `23.11.4`")
    return int(match.group(1)), int(match.group(2))


def partitions(text: str) -> dict[str, str]:
    """Return the state of every partition by its name.

    Raises:
        InputError: none, a line that is none, one without a state, or a name twice.
    """
    found: dict[str, str] = {}
    for line in plain(text).split("\n"):
        if not line.strip():
            continue
        name, states = _PARTITION.match(line), _STATE.findall(line)
        if name is None or len(states) != 1 or name.group(1) in found:
            raise unreadable(PARTITION_TOOL, line[:80], "`PartitionName=... State=...`, each partition once")
        found[name.group(1)] = states[0]
    if not found:
        raise unreadable(PARTITION_TOOL, "nothing", "a partition a line")
    return found


def _values(text: str, tool: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the values before the first part, and those of each part by its heading."""
    clean = plain(text)
    head = _HEAD.search(clean)
    if head is None or clean[: head.start()].strip():
        raise unreadable(tool, clean.strip()[:80] or "nothing", "`Configuration data as of ...`")
    first: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {}
    here = first
    for line in clean[head.end() :].split("\n"):
        if heading := _PART.match(line.strip()):
            here = parts.setdefault(heading.group(1), {})
        elif (match := _LINE.match(line)) and here.setdefault(match.group(1), match.group(2)) != match.group(2):
            raise unreadable(tool, f"{match.group(1)} twice", "every line once")
    return first, parts
