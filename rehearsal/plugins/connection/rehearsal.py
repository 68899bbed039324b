# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Connection to a simulated host of a rehearsal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rehearsal
short_description: Run tasks on a simulated host of a rehearsal
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Runs every command in namespaces of its own (mount, process, host name) over an overlay of this machine's file
    system, with the simulated tools of that host first on C(PATH).
  - Nothing that a task writes reaches this machine. Every command runs as root of the simulated host, so C(become)
    changes nothing.
  - Everything that a command starts ends with the command. Therefore C(async) tasks with C(poll=0) do not survive.
  - Where namespaces or overlays are refused the connection refuses, too; it never runs a command on the bare machine.
  - A host that the cluster model calls unreachable is unreachable.
requirements:
  - Linux 5.12 or later
  - root, or a system on which users may make namespaces
options:
  rehearsal_dir:
    description:
      - Directory of the rehearsal, with one directory per simulated host. The role C(rehearsal) makes it.
      - It cannot be read by what runs on a simulated host.
    type: path
    required: true
    env:
      - name: GPUFLEET_REHEARSAL_DIR
    vars:
      - name: gpufleet_rehearsal_dir
  host:
    description: Name of the simulated host.
    type: str
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: gpufleet_rehearsal_host
  pipelining:
    description: Send modules through standard input and not as files.
    type: bool
    default: true
    vars:
      - name: ansible_rehearsal_pipelining
"""

from pathlib import Path
from shlex import quote
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.enclosed import run_enclosed
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import read_host

display = Display()


class Connection(ConnectionBase):
    """Commands and files of one simulated host."""

    transport = "gpufleet.rehearsal.rehearsal"
    has_pipelining = True
    # Marks every page and file of a run over this connection as simulated.
    simulates_hosts = True

    def _connect(self) -> Connection:
        if not self._connected:
            try:
                facts = read_host(self._root, self._host)
            except BringupError as error:
                raise AnsibleConnectionFailure(str(error)) from None
            if not facts["reachable"]:
                raise AnsibleConnectionFailure(
                    f"Failed to connect to the host via rehearsal: connect to host {self._host} port 22: "
                    "No route to host"
                )
            # Commands already run as root, so there is no become.
            self._play_context.remote_user = "root"
            display.vvv(f"ESTABLISH REHEARSAL CONNECTION in {self._root}", host=self._host)
            self._connected = True
        return self

    def _option(self, name: str) -> Any:
        plugin: Any = self  # core does not annotate get_option
        return plugin.get_option(name)

    @property
    def _root(self) -> Path:
        return Path(self._option("rehearsal_dir"))

    @property
    def _host(self) -> str:
        return str(self._option("host"))

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command on the host."""
        self._connect()
        display.vvv(f"EXEC {cmd}", host=self._host)
        return self._run(cmd, in_data or b"")

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file to the host."""
        self._connect()
        display.vvv(f"PUT {in_path} TO {out_path}", host=self._host)
        source = Path(in_path)
        if not source.is_file():
            raise AnsibleFileNotFound(f"file or module does not exist: {in_path}")
        rc, _stdout, stderr = self._run(f"cat > {quote(out_path)}", source.read_bytes())
        if rc != 0:
            raise AnsibleError(f"failed to write {out_path} on {self._host}: {stderr.decode(errors='replace')}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file from the host."""
        self._connect()
        display.vvv(f"FETCH {in_path} TO {out_path}", host=self._host)
        rc, stdout, stderr = self._run(f"cat {quote(in_path)}", b"")
        if rc != 0:
            raise AnsibleError(f"failed to read {in_path} on {self._host}: {stderr.decode(errors='replace')}")
        Path(out_path).write_bytes(stdout)

    def close(self) -> None:
        """Nothing stays open between commands."""
        self._connected = False

    def _run(self, command: str, stdin: bytes) -> tuple[int, bytes, bytes]:
        try:
            return run_enclosed(self._root, self._host, command, stdin)
        except BringupError as error:
            raise AnsibleConnectionFailure(str(error)) from None

    def is_pipelining_enabled(self, wrap_async: bool = False) -> bool:
        """Whether modules go through standard input. Ansible's own implementation looks at other options."""
        return bool(self._option("pipelining")) and not wrap_async
