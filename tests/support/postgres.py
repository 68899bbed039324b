# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A real PostgreSQL server for tests: this machine's, or Debian's package unpacked; it never runs as root."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.ports import free_ports
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.packages import (
    Packages,
    ensure_unpacked,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

PACKAGE = "postgresql-15"
USER = "gpufleet"
# Signs that a URL has to escape.
PASSWORD = "p@ss/w:rd"
ESCAPED = "p%40ss%2Fw%3Ard"
_INSTALLED = Path("/usr/lib/postgresql")
_LIMIT_S = 120


class NoServerError(Exception):
    """Why there is no server here."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, with a user who may make databases."""

    port: int
    directory: Path
    programs: Path
    environment: Mapping[str, str]

    def new_database(self) -> str:
        """Return the URL of a database that is new."""
        name = f"history_{secrets.token_hex(6)}"
        self.sql(f'CREATE DATABASE "{name}"', "postgres")
        return self.url(name)

    def url(self, database: str, user: str = USER, password: str = ESCAPED) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def sql(self, text: str, database: str) -> list[tuple[object, ...]]:
        """Run a statement on a connection of its own, outside of any transaction."""
        import psycopg

        url = self.url(database)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def control(self, *words: str) -> None:
        """Run pg_ctl as the server's user."""
        _run(self.programs / "pg_ctl", "-D", str(self.directory / "data"), "-w", *words, environment=self.environment)


@contextmanager
def running_server() -> Iterator[Server]:
    """Start a server in a directory of its own and stop it at the end.

    Raises:
        NoServerError: it cannot be had on this machine, and why.
    """
    if importlib.util.find_spec("psycopg") is None:
        raise NoServerError("Python package psycopg is not installed (requirements/dev.in)")
    # In no directory of somebody's home: the server is another user, who cannot come in there.
    directory = Path(tempfile.mkdtemp(prefix="gpufleet-pg-", dir="/tmp"))
    try:
        programs, environment = _programs(directory)
        server = Server(free_ports(("postgres",))["postgres"], directory, programs, environment)
        _prepare(server)
        server.control("-l", str(directory / "log"), "start")
        try:
            yield server
        finally:
            server.control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _prepare(server: Server) -> None:
    directory = server.directory
    (directory / "password").write_text(PASSWORD)
    if os.geteuid() == 0:
        shutil.chown(directory, "nobody")
        shutil.chown(directory / "password", "nobody")
    _run(
        server.programs / "initdb", "-D", str(directory / "data"), "-U", USER, "-A", "scram-sha-256", "--no-sync",
        "-E", "UTF8", "--locale=C.UTF-8", f"--pwfile={directory / 'password'}", environment=server.environment,
    )  # fmt: skip
    with (directory / "data/postgresql.conf").open("a") as settings:
        settings.write(
            f"listen_addresses = '127.0.0.1'\nport = {server.port}\nunix_socket_directories = '{directory}'\n"
            # What the server's user may have set carelessly; a history does not rely on it.
            "synchronous_commit = off\nfsync = off\ndefault_transaction_isolation = 'repeatable read'\n"
        )


def _programs(directory: Path) -> tuple[Path, dict[str, str]]:
    """Return where the server's programs are, and what they need in their environment."""
    installed = sorted(_INSTALLED.glob("*/bin/initdb"))
    if installed:
        return installed[-1].parent, {}
    packages = Packages(
        (PACKAGE,), default_cache(os.environ) / "postgresql" / "root", "PostgreSQL", f"apt install {PACKAGE}"
    )
    try:
        ensure_unpacked(packages, lambda: packages.problem((), {}), Progress(print))
    except BringupError as error:
        raise NoServerError(str(error)) from error
    root = directory / "root"
    shutil.copytree(packages.root, root, symlinks=True)
    (found,) = root.glob("usr/lib/postgresql/*/bin/initdb")
    environment = packages.environment()
    return found.parent, {name: text.replace(str(packages.root), str(root)) for name, text in environment.items()}


def _run(program: Path, *words: str, environment: Mapping[str, str]) -> None:
    """Run it as nobody where this process is root, whom the server refuses."""
    become = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    ran = subprocess.run(
        [*become, str(program), *words], env={**os.environ, **environment, "LC_ALL": "C.UTF-8"}, cwd="/",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=_LIMIT_S,
        check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        raise RuntimeError(f"{program.name} ended with {ran.returncode}: {ran.stderr}")
