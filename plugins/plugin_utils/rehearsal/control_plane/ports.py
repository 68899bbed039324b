# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Free ports on loopback."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel takes ports for outgoing connections: such a port is not taken by accident
# between choosing and binding it.
_LOW, _HIGH = 20000, 32000
_TRIES = 2000


def free_ports(names: tuple[str, ...], chooser: random.Random | None = None) -> dict[str, int]:
    """Return a free, distinct port of 127.0.0.1 for each name.

    Raises:
        OSError: there are not enough free ports.
    """
    source = chooser or random.SystemRandom()
    chosen: dict[str, int] = {}
    for _try in range(_TRIES):
        if len(chosen) == len(names):
            return chosen
        port = source.randrange(_LOW, _HIGH)
        if port not in chosen.values() and is_free(port):
            chosen[names[len(chosen)]] = port
    raise OSError(f"no {len(names)} free ports between {_LOW} and {_HIGH} on 127.0.0.1")


def is_free(port: int) -> bool:
    """Whether nobody listens on a port of 127.0.0.1 or of all addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
