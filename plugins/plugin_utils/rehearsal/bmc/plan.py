# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The BMCs of a rehearsal as files and one process: certificates, a password, a port of loopback for each host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ...runtime.files import write_atomic
from ...runtime.launch import python_argv
from ..control_plane.ports import free_ports
from ..processes.spec import Probe, ProcessSpec
from .certificates import AUTHORITY, KINDS, write_certificates
from .pdu_payloads import FEEDS, pdu_name

_PLAN, _PASSWORD = "bmcs.json", "password"
_WAVE = 0
_CAPACITY_KW = 60.0


@dataclass(frozen=True, slots=True)
class SimulatedBmcs:
    """Planned BMCs: their process, if there are any, the URL of each by its host, PDUs as a site states them, and the
    ports of all."""

    processes: tuple[ProcessSpec, ...] = ()
    urls: dict[str, str] = field(default_factory=dict)
    pdus: dict[str, dict[str, Any]] = field(default_factory=dict)
    ports: frozenset[int] = frozenset()


def bmc_directory(rehearsal: Path) -> Path:
    return rehearsal / "bmcs"


def write_access(directory: Path) -> dict[str, Any]:
    """Write certificates and a password, and return settings of check bmc-reached for them.

    The simulated BMCs take any account, so that one which the site states for single hosts is taken, too.

    Raises:
        OSError: the directory cannot be written.
    """
    shutil.rmtree(directory, ignore_errors=True)
    write_certificates(directory)
    write_atomic(directory / _PASSWORD, "of-the-rehearsal\n", 0o600)
    return {
        "user": "rehearsal", "password_file": str(directory / _PASSWORD), "ca_cert": str(directory / AUTHORITY),
        "validate_certs": True, "timeout_s": 30.0,
    }  # fmt: skip


def plan_bmcs(
    directory: Path,
    names: Sequence[str],
    model_file: Path,
    hardware: tuple[Path, ...] = (),
    racks: Sequence[str] = (),
) -> SimulatedBmcs:
    """Write what the process reads, and return it with the URLs.

    Args:
        directory: where write_access has written.
        names: the hosts that have one.
        model_file: what the BMCs follow.
        hardware: directories of more SKU facts.
        racks: those whose PDUs are simulated, two for each.

    Raises:
        OSError: the directory cannot be written, or there are no free ports.
    """
    if not names:
        return SimulatedBmcs()
    units = {pdu_name(rack, number): (rack, feed) for rack in racks for number, feed in enumerate(FEEDS)}
    # The addresses of a site stay: a rehearsal that is started again in its directory has those of the last one, as far
    # as they are free. Gates that passed before depend on them.
    ports = free_ports((*names, *units), Random(str(directory)))
    certificates = {kind: str(directory / f"bmc-{kind}.pem") for kind in KINDS}
    write_atomic(directory / _PLAN, json.dumps({"ports": ports, "certificates": certificates}))
    more = [word for path in hardware for word in ("--hardware", str(path))]
    argv = python_argv("rehearsal.bmc", "--model", str(model_file), "--plan", str(directory / _PLAN), *more)
    process = ProcessSpec(name="bmcs", argv=argv, wave=_WAVE, probe=Probe(port=ports[names[0]]))
    urls = {name: f"https://127.0.0.1:{port}" for name, port in ports.items()}
    pdus = {
        name: {"address": urls.pop(name), "rack": rack, "feed": feed, "capacity_kw": _CAPACITY_KW}
        for name, (rack, feed) in units.items()
    }
    return SimulatedBmcs((process,), urls, pdus, frozenset(ports.values()))
