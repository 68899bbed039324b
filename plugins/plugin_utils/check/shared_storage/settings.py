# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of every measurement of the shared volume: which volume, how much is written, what is slow.

They belong to check storage-integrity. The other storage checks of gate training_acceptance judge the same runs, before
it trains. The test of one idle node uses them as well.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any

from ...outcome.errors import InputError
from ...verdict.peers import PeerLimits
from ..kit.peer_settings import cohort_share, peer_spreads, peer_tolerance, peers_least
from ..kit.settings import setting

KEY = "storage-integrity"
PATTERNS = ("sequential-write", "sequential-read", "random-read", "random-write")
_DIRECTORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_MIB = 1 << 20
# Free space that is required, as a multiple of what is written.
_SPARE = 1.1
# In a large fleet the groups have more hosts, so that there are no more groups than this.
_MOST_GROUPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The shared volume, and how fio measures it on each host."""

    # The shared volume, measured before the training; without a volume nothing of it is. No absolute speed is known
    # (NFS, Lustre, Weka and object stores differ by a hundred): hosts are compared with each other, widely, for a
    # healthy NFS spreads by 15 %.
    volume: dict[str, Any] = setting(
        "Volume source of a pod with the storage that all hosts share ({nfs: {...}}, {hostPath: {...}}, {csi: {...}}). "
        "Without it and claim nothing of storage is tested.",
        default={},
        use="run",
    )
    claim: dict[str, Any] = setting(
        "Spec of a PersistentVolumeClaim of the shared storage's class, in the place of volume: every test "
        "gets a volume of its own by it, which goes with its pod.",
        default={},
        use="run",
    )
    directory: str = setting(
        "Directory of the volume below which the tests write, each in one of its own that is removed at its end; it is "
        "made where it is not there.",
        default="gpufleet-storage-test",
        use="run",
    )
    image: str = setting("Image with fio and a shell; an air-gapped site names its own.", use="run")
    user: int = setting(
        "User, by number, that writes; the directory must be open to it.", default=65534, minimum=1, use="run"
    )
    size_mib: int = setting("What each thread writes and reads.", default=256, unit="MiB", minimum=1, use="run")
    threads: int = setting("Threads of a host at the same time.", default=4, unit="threads", minimum=1, use="run")
    seconds: float = setting(
        "How long random reads, and random writes, go on.", default=10, unit="s", above=0, use="run"
    )
    rate_mib_s: float = setting(
        "Most that a host writes, or reads, in a second, so that users of the volume are not hurt; 0: no limit.",
        default=0,
        unit="MiB/s",
        minimum=0,
        use="run",
    )
    parallel: int = setting(
        "Hosts that are measured at the same time; more where there would be over 16 groups.",
        default=8,
        unit="hosts",
        minimum=1,
        use="run",
    )
    timeout_s: float = setting("Longest time of one host, from its start.", default=300, unit="s", above=0, use="run")
    pull_s: float = setting(
        "How long a pod may take to start once it has a node: its image, and the mount.",
        default=600,
        unit="s",
        above=0,
        use="run",
    )
    schedule_s: float = setting("How long a pod may wait for a node.", default=60, unit="s", above=0, use="run")
    repeats: int = setting(
        "How often a suspect is measured before it counts; the median is judged.", default=3, minimum=1, use="run"
    )
    floor_mib_s: dict[str, float] = setting(
        f"Least that a host reaches, by what it does ({', '.join(PATTERNS)}), where the site knows it.",
        default={},
        unit="MiB/s",
        minimum=0,
        keys=PATTERNS,
    )
    p99_ms: dict[str, float] = setting(
        "Longest 99th percentile of the latency, by what is done, where the site knows it.",
        default={},
        unit="ms",
        above=0,
        keys=PATTERNS,
    )
    peer_tolerance: float = peer_tolerance(default=0.4)
    peer_bad: float = setting(
        "Part of the median of its peers by which a host moves less data before it fails; between this and "
        "peer_tolerance it is marginal.",
        default=0.5,
        minimum=0,
        below=1,
    )
    latency_factor: float = setting(
        "How many times the 99th percentile of its peers a host's own may be before it is marginal.", default=3, above=1
    )
    latency_bad: float = setting("How many times that is bad.", default=5, above=1)
    peer_spreads: float = peer_spreads(default=4.5)
    peers_least: int = peers_least(default=4)
    cohort_share: float = cohort_share(default=0.5)

    def __post_init__(self) -> None:
        where = f"settings of {KEY}"
        if self.volume and self.claim:
            raise InputError(where, "states both volume and claim.", "state one of them")
        if not _DIRECTORY.fullmatch(self.directory):
            hint = "letters, digits and _ . - between slashes, such as tests/storage"
            raise InputError(where, f"directory {self.directory!r} is no plain path.", hint)

    @property
    def declared(self) -> bool:
        """Whether a shared volume is configured."""
        return bool(self.volume or self.claim)

    @property
    def source(self) -> dict[str, Any]:
        """The volume source of a pod."""
        if not self.claim:
            return self.volume
        return {"ephemeral": {"volumeClaimTemplate": {"spec": self.claim}}}

    @property
    def volume_word(self) -> str:
        """The volume as text, for comparisons: its kind, and a digest of everything that the site configures for it."""
        digest = hashlib.sha256(json.dumps(self.source, sort_keys=True).encode()).hexdigest()[:12]
        return f"{', '.join(sorted(self.source))} {digest}"

    def at_a_time(self, hosts: int) -> int:
        """Return how many of `hosts` hosts are measured at the same time."""
        return max(self.parallel, math.ceil(hosts / _MOST_GROUPS))

    @property
    def written_bytes(self) -> int:
        """Bytes that a host writes."""
        return self.size_mib * self.threads * _MIB

    @property
    def needed_kib(self) -> int:
        """Free space that it needs, in KiB."""
        return int(self.written_bytes * _SPARE) // 1024

    @property
    def rate_of_a_thread(self) -> int:
        """Limit of one thread in bytes per second. 0: no limit."""
        if not self.rate_mib_s:
            return 0
        return max(4096, int(self.rate_mib_s * _MIB / self.threads))

    @property
    def throughput_peers(self) -> PeerLimits:
        """The limits of the peer comparison for throughput."""
        return self._peers(self.peer_tolerance)

    @property
    def latency_peers(self) -> PeerLimits:
        """The limits of the peer comparison for the inverse of a latency."""
        return self._peers(1 - 1 / self.latency_factor)

    def _peers(self, tolerance: float) -> PeerLimits:
        return PeerLimits(
            tolerance=tolerance, spreads=self.peer_spreads, least=self.peers_least,
            share=self.cohort_share,
        )  # fmt: skip
