# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The resident program knows a module of Ansible when it sees one, and never takes one library for another."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.asking import (
    Order,
    ask,
    resident_address,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.resident import python_on_input

PYTHON = sys.executable
BECOME = f"sudo -H -S -n  -u root /bin/sh -c 'echo BECOME-SUCCESS-xyz ; {PYTHON}'"
CORE = "ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.preloaded"
LIBRARY = "ansible/module_utils/common/_utils.py"


@pytest.mark.parametrize(
    ("command", "said"), [(PYTHON, []), (f"/bin/sh -c {PYTHON}", []), (BECOME, ["BECOME-SUCCESS-xyz"])]
)
def test_what_ansible_sends_for_a_module_is_known(command: str, said: list[str]) -> None:
    assert python_on_input(command, sudo_is_plain=True) == said


@pytest.mark.parametrize(
    "command",
    [
        f"{PYTHON} -c pass", f"{PYTHON} && sleep 0", f"{PYTHON};true", f"LANG=C {PYTHON}", "/usr/bin/other-python",
        f"sudo -u nobody {PYTHON}", f"{PYTHON} > /tmp/x", "cat", "", "echo 'not closed", "$(true)", f"cd / && {PYTHON}",
    ],
)  # fmt: skip
def test_any_other_command_is_for_the_shell(command: str) -> None:
    assert python_on_input(command, sudo_is_plain=True) is None


def test_a_sudo_that_is_not_the_simulated_one_is_run(tmp_path: Path) -> None:
    assert python_on_input(BECOME, sudo_is_plain=False) is None


def reused(archive: Path, change: str) -> str:
    """Return whether a library is run again, from a zip file that has it with a change."""
    origin = "import ansible.module_utils.common._utils as found; print(found.__file__)"
    source = Path(subprocess.run([PYTHON, "-c", origin], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    with zipfile.ZipFile(archive, "w") as written:
        for package in ("ansible", "ansible/module_utils", "ansible/module_utils/common"):
            written.writestr(f"{package}/__init__.py", "")
        written.writestr(LIBRARY, source.read_text(encoding="utf-8") + change)
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[6] / '.cache')!r}); import {CORE} as p; "
        f"p.load(); p.offer(); sys.path.insert(0, {str(archive)!r}); sys.modules.pop('ansible', None); "
        "import ansible.module_utils.common._utils as found; "
        f"kept = p._kept['ansible.module_utils.common._utils'].module; print(found is kept, found.__file__)"
    )
    return subprocess.run([PYTHON, "-c", program], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_a_library_that_a_module_brings_unchanged_is_not_run_again(tmp_path: Path) -> None:
    archive = tmp_path / "module.zip"
    assert reused(archive, "") == f"True {archive}/{LIBRARY}"


def test_a_library_that_a_module_brings_changed_is_run(tmp_path: Path) -> None:
    archive = tmp_path / "module.zip"
    assert reused(archive, "\n") == f"False {archive}/{LIBRARY}"


def test_an_order_is_one_line(tmp_path: Path) -> None:
    order = Order("gpu01", "printf 'a\\nb\n' # \u00fc", {"LANG": "C.UTF-8"})
    line = order.line()
    assert line.count(b"\n") == 1
    found = Order.read(line)
    assert (found.host, found.command, found.environment) == (order.host, order.command, order.environment)


def test_the_address_is_short_however_deep_the_directory(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200)
    deep.mkdir()
    with resident_address(str(deep)) as address:
        assert len(address) < 100


class Slow(socket.socket):
    """A socket whose order has been carried out before the sender goes on."""

    carried_out: threading.Thread

    def sendmsg(self, *given: Any) -> int:
        sent = super().sendmsg(*given)
        self.carried_out.join(10)
        return sent


def test_a_command_may_have_ended_before_its_order_is_sent_whole() -> None:
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            _text, streams, _flags, _from = socket.recv_fds(theirs, 1 << 16, 3)
            os.write(streams[1], b"printed")
            for stream in streams:
                os.close(stream)
            theirs.sendall(b"0\n")

    with Slow(fileno=ours.detach()) as resident:
        resident.carried_out = threading.Thread(target=serve)
        resident.carried_out.start()
        assert ask(resident, "gpu01", "true", b"") == (0, b"printed", b"")
