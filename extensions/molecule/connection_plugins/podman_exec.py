# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Connection to the hosts of the molecule scenarios: containers of podman, entered with `podman exec`."""

from __future__ import annotations

import shlex
import subprocess

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = r"""
name: podman_exec
short_description: Run in a container of podman
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Runs commands in the container that is named as C(ansible_host) says.
options:
  remote_addr:
    description: Name of the container.
    type: str
    vars:
      - name: ansible_host
"""


class Connection(ConnectionBase):  # type: ignore[misc,unused-ignore]
    """One container."""

    transport = "podman_exec"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def _podman(self, command: list[str], data: bytes | None = None) -> tuple[int, bytes, bytes]:
        argv = ["podman", "--runtime", "runc", "exec", "-i", str(self.get_option("remote_addr")), *command]
        done = subprocess.run(argv, input=data or b"", capture_output=True, check=False)
        # What podman itself says: the container does not run, as a host that is down (podman-exec(1), exit status).
        if done.returncode == 125:
            raise AnsibleConnectionFailure(done.stderr.decode(errors="replace").strip())
        return done.returncode, done.stdout, done.stderr

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a command line in the container."""
        del sudoable
        return self._podman(["sh", "-c", cmd], in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the container."""
        with open(in_path, "rb") as file:
            status, _out, err = self._podman(["sh", "-c", f"cat > {shlex.quote(out_path)}"], file.read())
        if status:
            raise AnsibleConnectionFailure(f"{out_path} could not be written: {err.decode(errors='replace')}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the container."""
        status, out, err = self._podman(["cat", in_path])
        if status:
            raise AnsibleConnectionFailure(f"{in_path} could not be read: {err.decode(errors='replace')}")
        with open(out_path, "wb") as file:
            file.write(out)

    def close(self) -> None:
        """Nothing stays open."""
        self._connected = False
