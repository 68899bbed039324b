# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check kernel-settings-uniform: kernel settings and boot parameters are the same on all hosts of a SKU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...site.model import Host
from ...verdict.majority import more_than_half
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions

Values = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettingsSettings:
    """Settings of check kernel-settings-uniform."""

    sysctls: tuple[str, ...] = setting(
        "Settings of the kernel (sysctl) that are compared on every host, also where they are not set, or two halves "
        "of the hosts have them differently. All others are compared where most hosts of the SKU have one value.",
        default=["kernel.numa_balancing", "vm.nr_hugepages", "vm.zone_reclaim_mode"],
    )
    boot_parameters: tuple[str, ...] = setting(
        "The same of parameters of the boot.",
        default=[
            "amd_iommu",
            "default_hugepagesz",
            "hugepages",
            "intel_iommu",
            "iommu",
            "isolcpus",
            "mitigations",
            "nohz_full",
            "pci",
        ],
    )
    # Linux, Documentation/admin-guide/sysctl: what the kernel counts, draws or lowers by itself; names of the machine;
    # the last word that somebody wrote to a trigger; limits that follow from the exact size of the memory.
    sysctls_vary: tuple[str, ...] = setting(
        "Patterns (*, ?) of settings of the kernel that differ between healthy hosts: counters, names, what follows "
        "from the exact size of the memory.",
        default=[
            "dev.cdrom.*",
            "dev.raid.*",
            "fs.aio-nr",
            "fs.binfmt_misc.*",
            "fs.dentry-state",
            "fs.epoll.max_user_watches",
            "fs.fanotify.max_user_marks",
            "fs.file-max",
            "fs.file-nr",
            "fs.inode-nr",
            "fs.inode-state",
            "fs.inotify.max_user_watches",
            "fs.nfs.*",
            "fs.quota.*",
            "kernel.acct",
            "kernel.cad_pid",
            "kernel.domainname",
            "kernel.hostname",
            "kernel.hung_task_detect_count",
            "kernel.hung_task_warnings",
            "kernel.kexec_load_limit_*",
            "kernel.keys.*",
            "kernel.modprobe",
            "kernel.msg_next_id",
            "kernel.ns_last_pid",
            "kernel.osrelease",
            "kernel.perf_event_max_sample_rate",
            "kernel.pty.nr",
            "kernel.random.*",
            "kernel.sched_domain.*",
            "kernel.sem_next_id",
            "kernel.shm_next_id",
            "kernel.spl.*",
            "kernel.tainted",
            "kernel.threads-max",
            "kernel.version",
            "net.core.bpf_jit_limit",
            "net.core.netdev_rss_key",
            "net.ipv4.inet_peer_*",
            "net.ipv4.ipfrag_*",
            "net.ipv4.tcp_available_*",
            "net.ipv4.tcp_ehash_entries",
            "net.ipv4.tcp_fastopen_key",
            "net.ipv4.tcp_max_orphans",
            "net.ipv4.tcp_max_syn_backlog",
            "net.ipv4.tcp_max_tw_buckets",
            "net.ipv4.tcp_mem",
            "net.ipv4.udp_hash_entries",
            "net.ipv4.udp_mem",
            "user.*",
            "vm.compact_memory",
            "vm.drop_caches",
            "vm.min_free_kbytes",
            "vm.stat_refresh",
            "vm.user_reserve_kbytes",
            "vm.admin_reserve_kbytes",
        ],
    )
    # Documentation/admin-guide/kernel-parameters.txt, dracut.cmdline(7), systemd kernel-command-line(7): where the
    # machine boots from and what it is called; what only says how much is printed.
    boot_parameters_vary: tuple[str, ...] = setting(
        "Patterns of parameters of the boot that differ between healthy hosts: what names the machine or its disks.",
        default=[
            "BOOT_IMAGE",
            "BOOTIF",
            "bootdev",
            "bootif",
            "boot",
            "debug",
            "ds",
            "fsck.*",
            "hostname",
            "ifname",
            "ignition.*",
            "initrd",
            "inst.*",
            "ip",
            "loglevel",
            "nfsroot",
            "ostree",
            "quiet",
            "rd.*",
            "resume",
            "resume_offset",
            "rhgb",
            "ro",
            "root",
            "rootflags",
            "rootfstype",
            "rw",
            "splash",
            "systemd.hostname",
            "systemd.machine_id",
            "talos.config",
            "vt.handoff",
        ],
    )


SPEC = CheckSpec(
    id="kernel-settings-uniform",
    gate="nodes",
    title="Kernel settings alike on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    settings=KernelSettingsSettings,
)
_UNSET = "not set"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge settings against those of most hosts. A difference may be intended, so a person decides."""
    settings = context.settings_of(SPEC.id, KernelSettingsSettings)
    skus: dict[str, list[Host]] = {}
    for host in context.site.in_scope:
        skus.setdefault(host.sku, []).append(host)
    parts: dict[str, tuple[Part, ...]] = {}
    for hosts in skus.values():
        parts |= _parts(observed, [host.name for host in hosts], settings)
    versions = PartVersions(SPEC, parts, lambda host, _name: host.answer.subject, word="kernel setting", needs="sysctl")
    return versions.judge(observed, context)


def _parts(observed: FleetFacts, names: Sequence[str], settings: KernelSettingsSettings) -> dict[str, tuple[Part, ...]]:
    """Return what is compared between hosts of one SKU; an empty value is one that could not be read."""
    there = [name for name in names if name in observed.hosts]
    sysctls = {name: _values(observed, name, "sysctl", settings.sysctls_vary) for name in there}
    boots = {name: _values(observed, name, "boot", settings.boot_parameters_vary) for name in there}
    # A setting that a host lacks belongs to a module that is not loaded there; a missing parameter was left out on
    # purpose.
    odd_sysctls = _odd([found for found in sysctls.values() if found is not None], {*settings.sysctls}, unset="")
    odd_boots = _odd(
        [found for found in boots.values() if found is not None], {*settings.boot_parameters}, unset=_UNSET
    )
    parts: dict[str, tuple[Part, ...]] = dict.fromkeys(names, ())
    for name in there:
        mine, boot = sysctls[name], boots[name]
        if mine is not None:
            reported = {word: mine.get(word, _UNSET) or _UNSET for word in settings.sysctls}
            reported |= {word: mine[word] for word in odd_sysctls if word in mine}
            for word in (*settings.boot_parameters, *odd_boots):
                reported[f"boot parameter {word}"] = "" if boot is None else boot.get(word, _UNSET)
            parts[name] = tuple(Part(word, (word,), value) for word, value in reported.items())
    return parts


def _values(observed: FleetFacts, name: str, fact: str, vary: Sequence[str]) -> Values | None:
    """Return settings by name without those that vary between hosts; None where they could not be read."""
    found = observed.hosts[name].read(fact, dict)
    if isinstance(found, ProbeFailure):
        return None
    words = ((str(path).removeprefix("/proc/sys/").replace("/", "."), str(value)) for path, value in found.items())
    varies = _any_of(tuple(vary)).match
    return {word: value for word, value in words if not varies(word)}


@lru_cache(maxsize=8)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one pattern for all that these patterns match: it is applied to a thousand settings of each host."""
    # The pattern for an empty list matches nothing.
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")


def _odd(hosts: Sequence[Values], listed: set[str], *, unset: str) -> list[str]:
    """Return the settings for which most of the hosts have one value, and at least one host another.

    An empty `unset` leaves out the hosts that lack a setting.
    """
    found: list[str] = []
    for word in sorted({word for values in hosts for word in values} - listed):
        reported = Counter(value for values in hosts if (value := values.get(word, unset)) or word in values)
        if len(reported) > 1 and more_than_half(reported) is not None:
            found.append(word)
    return found


CHECK = Check(SPEC, OBSERVER, judge)
