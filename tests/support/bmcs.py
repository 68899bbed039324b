# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated BMCs in this process: TLS on loopback, a port each."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.plan import AUTHORITY, write_certificates
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.server import (
    Certificates,
    Controller,
    Login,
    Port,
    serve,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import Bmc, RackUnit

LOGIN = Login(user="reader", password="of-the-rehearsal")


@dataclass(frozen=True)
class Running:
    """BMCs that answer: their URLs and their state by name, and the authority of their certificates."""

    urls: dict[str, str]
    controllers: dict[str, Controller]
    ca_cert: str


@contextmanager
def running_bmcs(directory: Path, bmcs: Mapping[str, Bmc | RackUnit]) -> Iterator[Running]:
    """Serve BMCs until the block ends."""
    certificates = Certificates(files=write_certificates(directory))
    controllers = {name: Controller(bmc, f"S-{name}", LOGIN) for name, bmc in bmcs.items()}
    ports = {name: Port(0, controller, certificates) for name, controller in controllers.items()}
    ended = threading.Event()
    thread = threading.Thread(target=serve, args=(list(ports.values()), ended, None, 0.05), daemon=True)
    thread.start()
    urls = {name: f"https://127.0.0.1:{port.server_address[1]}" for name, port in ports.items()}
    try:
        yield Running(urls, controllers, str(directory / AUTHORITY))
    finally:
        ended.set()
        thread.join(timeout=30)
        for port in ports.values():
            port.server_close()
