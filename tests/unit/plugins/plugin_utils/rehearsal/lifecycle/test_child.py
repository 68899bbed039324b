# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that finds its port taken says so in its own words, and is started again with another port."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.child import start_child
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import ProcessSpec

PYTHON = "import http.server, sys; http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), None)"
# What the listener of Go says (net.Listen).
GO = "import sys; sys.exit('listen tcp 127.0.0.1:' + sys.argv[1] + ': bind: address already in use')"
OTHER = "raise SystemExit('no such model')"


@pytest.mark.parametrize(
    ("program", "clash"), [(PYTHON, True), (GO, True), (OTHER, False)], ids=["python", "go", "other"]
)
def test_a_taken_port_is_told_from_other_ends(tmp_path: Path, program: str, clash: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        argv = (sys.executable, "-c", program, str(taken.getsockname()[1]))
        child = start_child(ProcessSpec(name="bmcs", argv=argv, wave=1), tmp_path, {})
        assert child.process.wait(30) != 0
        assert child.clashed() is clash
