# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The history in a real PostgreSQL server: gates, migrations, errors in words, and a password that nobody sees."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from history_rows import GPU01, drivers, outcome, record
from postgres import ESCAPED, PASSWORD, Server
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store import database
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import (
    MIGRATIONS,
    Place,
    StoreUrl,
    place_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.tables import tables


@pytest.fixture
def place(postgres: Server) -> Place:
    return place_of(postgres.new_database())


def name_of(place: Place) -> str:
    assert isinstance(place, StoreUrl)
    return place.secret.rpartition("/")[2]


def test_gates_are_recorded_as_in_a_file(place: Place) -> None:
    store = open_store(place)
    assert record(store, "nodes", drivers()).passes == 2
    bad = replace(outcome("nodes", "gpu-census", GPU01, status=Status.FAILED), cause="gpu-missing", hint="mend")
    record(store, "nodes", [bad, *drivers()], run_id="run-2")
    record(store, "nodes", [bad, *drivers()], run_id="run-2")
    assert {entry.run_id for entry in store.last_passes(SITE, rehearsal=False)} == {"run-2"}
    (found,) = store.non_passes(SITE, "", rehearsal=False)
    assert (found.run_id, found.text) == ("run-2", "failed (gpu-missing)")
    assert store.sites(rehearsal=False) == (SITE,)


def test_many_that_make_and_write_the_same_history_at_once(place: Place) -> None:
    start = threading.Barrier(4)

    def write(number: int) -> int:
        start.wait(timeout=60)
        store = open_service(place)
        store.begin_cycle(cycle(f"c{number}"))
        results = [node_result(f"c{number}", node=f"gpu{n}", started_s=float(n)) for n in range(8)]
        return sum(store.add_result(result) for result in results)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [8] * 4
    assert len(open_service(place).results(SITE, rehearsal=False, since_s=0)) == 32


def test_a_history_of_version_4_gets_room(postgres: Server, place: Place) -> None:
    open_service(place)
    later = (tables().accepted_figure, tables().withdrawal)
    for table in (*later, *reversed(tables().service.every)):
        postgres.sql(f"DROP TABLE {table.name}", name_of(place))
    postgres.sql("UPDATE schema_version SET version = 4", name_of(place))
    open_service(place).begin_cycle(cycle())
    assert postgres.sql("SELECT version FROM schema_version", name_of(place)) == [(len(MIGRATIONS),)]


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("UPDATE schema_version SET version = 99", "version 99"),
        ("DELETE FROM schema_version", "no schema version"),
        ("ALTER TABLE schema_version RENAME TO theirs", "another program"),
        ("DROP TABLE node_last", "damaged"),
    ],
)
def test_a_database_of_an_unknown_schema_is_refused(postgres: Server, place: Place, sql: str, word: str) -> None:
    open_service(place)
    postgres.sql(sql, name_of(place))
    with pytest.raises(BringupError, match=word) as error:
        open_service(place).latest(SITE, rehearsal=False)
    assert error.value.subject == str(place) and error.value.hint


def test_who_cannot_get_in_is_told_why_without_the_password(postgres: Server) -> None:
    postgres.sql("CREATE USER guest PASSWORD 'p@ss/w:rd'", "postgres")
    known = postgres.new_database().rpartition("/")[2]
    closed = postgres.url(known).replace(f":{postgres.port}/", ":1/")
    for url, word in (
        (postgres.url(known, password="wrong"), "does not take the password"),
        (postgres.url("nowhere"), "has no such database"),
        (postgres.url(known, user="guest"), "does not let that user make"),
        (closed, "[Cc]onnection refused"),
    ):
        with pytest.raises(BringupError, match=word) as error:
            open_service(place_of(url))
        text = str(error.value)
        assert error.value.hint and PASSWORD not in text and ESCAPED not in text and "127.0.0.1" in text


def test_a_standby_takes_no_writes(postgres: Server, place: Place) -> None:
    store = open_service(place)
    postgres.sql(f'ALTER DATABASE "{name_of(place)}" SET default_transaction_read_only = on', "postgres")
    with pytest.raises(BringupError, match="takes no writes"):
        store.begin_cycle(cycle())


def test_who_waits_too_long_for_another_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_service(place)
    monkeypatch.setattr(database, "_BEGIN", "SELECT set_config('lock_timeout', '200ms', true)")
    with store.engine.begin(), pytest.raises(BringupError, match="kept it locked"):
        open_service(place)


def test_what_was_acknowledged_outlives_a_crash_of_the_server(postgres: Server, place: Place) -> None:
    store = open_service(place)
    store.begin_cycle(cycle())
    for number in range(20):
        assert store.add_result(node_result(node=f"gpu{number:02d}", started_s=float(number)))
    with store.engine.begin() as connection:
        # The server's own setting is off; a commit of ours waits for the disk.
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    postgres.control("-m", "immediate", "-l", str(postgres.directory / "log"), "restart")
    assert len(store.results(SITE, rehearsal=False, since_s=0)) == 20


def test_a_missing_driver_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BringupError, match="psycopg: is not installed") as error:
        open_service(place)
    assert error.value.hint == "pip install 'psycopg[binary]'"


def test_leases_run_out_by_the_clock_of_the_server(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller whose clock is a day ahead, or behind, does not take over what another holds."""
    store = open_service(place)
    for name in ("c1", "c2", "c3"):
        store.begin_cycle(cycle(name))
    true_s = time.time()
    for name, ahead_s in (("c1", 0.0), ("c2", 86400.0), ("c3", -86400.0)):
        monkeypatch.setattr(time, "time", lambda ahead_s=ahead_s: true_s + ahead_s)
        now_s = store.clock_s()
        assert abs(now_s - true_s) < 60
        claim = store.take_lease("gpu01", "dl", name, now_s, now_s + 600)
        assert (claim.lease is not None) is (name == "c1")
    assert store.take_lease("gpu01", "dl", "c2", now_s + 700, now_s + 800).took_over is not None
