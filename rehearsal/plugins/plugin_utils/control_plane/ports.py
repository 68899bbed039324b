# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Free ports on loopback."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

# Below the ephemeral port range of the kernel, so that no outgoing connection takes a port between its choice and its
# use.
_LOW, _HIGH = 20000, 32000
# For ports that are bound only minutes after their choice. Until then they look free to everyone else.
_LATE_LOW = 18000
_TRIES = 20000


def free_ports(
    names: tuple[str, ...], chooser: random.Random | None = None, taken: Collection[int] = ()
) -> dict[str, int]:
    """Return a free, distinct port of 127.0.0.1 for each name.

    Args:
        names: the users of the ports.
        chooser: random source; None: new ports each time.
        taken: ports of other servers that may not listen yet.

    Raises:
        OSError: there are not enough free ports.
    """
    return _chosen(names, chooser or random.SystemRandom(), (_LOW, _HIGH), taken)


def late_port(name: str) -> dict[str, int]:
    """Return a free port for a server that starts much later, from a range used only here.

    Raises:
        OSError: there is no free port.
    """
    return _chosen((name,), random.SystemRandom(), (_LATE_LOW, _LOW), ())


def _chosen(
    names: tuple[str, ...], source: random.Random, limits: tuple[int, int], taken: Collection[int]
) -> dict[str, int]:
    low, high = limits
    chosen: dict[str, int] = {}
    for _try in range(_TRIES):
        if len(chosen) == len(names):
            return chosen
        port = source.randrange(low, high)
        if port not in taken and port not in chosen.values() and is_free(port):
            chosen[names[len(chosen)]] = port
    raise OSError(f"no {len(names)} free ports between {low} and {high} on 127.0.0.1")


def is_free(port: int) -> bool:
    """Return whether a port of 127.0.0.1 or of all addresses has no listener."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
