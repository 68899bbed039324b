# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where histories of tests are: a file, and a database of a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import NoServerError, Server, running_server

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import Place, place_of


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server that runs; a test that asks for it is skipped where none can be had."""
    try:
        with running_server() as server:
            yield server
    except NoServerError as error:
        pytest.skip(f"no PostgreSQL server: {error}")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place for a history that is new, of each kind."""
    if request.param == "sqlite":
        return tmp_path / "history.sqlite"
    return place_of(request.getfixturevalue("postgres").new_database())
