# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asking a local process whether it serves."""

from __future__ import annotations

import http.client
import socket
import ssl
from functools import cache

from ..processes.spec import Probe

_HOST = "127.0.0.1"
_TIMEOUT_S = 2.0


def serves(probe: Probe) -> bool:
    """Whether the process answers as its probe expects, asked once."""
    try:
        return _answers(probe) if probe.path else _accepts(probe.port)
    except (OSError, http.client.HTTPException):
        return False


def _accepts(port: int) -> bool:
    with socket.create_connection((_HOST, port), timeout=_TIMEOUT_S):
        return True


def _answers(probe: Probe) -> bool:
    if probe.ca_file:
        context = _tls(probe.ca_file, probe.cert_file, probe.key_file)
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            _HOST, probe.port, timeout=_TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(_HOST, probe.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", probe.path)
        return connection.getresponse().status == 200
    finally:
        connection.close()


@cache
def _tls(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file:
        context.load_cert_chain(cert_file, key_file)
    return context
