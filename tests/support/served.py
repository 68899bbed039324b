# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of the tests, at work on loopback while a test runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import TypeVar

ServerT = TypeVar("ServerT", bound=ThreadingHTTPServer)


@contextmanager
def served(server: ServerT) -> Iterator[ServerT]:
    """Yield a server that answers, and end it."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
