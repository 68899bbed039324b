# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a history is: files of this machine and of the network, URLs with passwords."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ENVIRONMENT, with_server
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store import database
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import (
    StoreUrl,
    is_network,
    mount_of,
    place_of,
    url_from,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store

MOUNTS = r"""22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 22 0:27 / /home rw,relatime shared:13 - nfs4 nas:/home rw,vers=4.2,addr=10.0.0.5
32 31 0:28 / /home/local rw,relatime - xfs /dev/vdb rw
33 22 0:29 / /scratch rw - lustre 10.0.0.6@o2ib:/scratch rw,flock
34 22 0:30 / /mnt/two\040words rw - cifs //nas/share rw
35 22 0:31 / /covered rw - ext4 /dev/vdc rw
36 35 0:32 / /covered rw - beegfs beegfs_nodev rw
37 22 0:33 / /homeless rw shared:9 master:1 - tmpfs tmpfs rw
38 22 0:34 / /s3 rw - fuse.mount-s3 mountpoint-s3 rw
39 22 0:35 / /plain rw - fuse.gocryptfs secret rw
"""
SECRET = "p%40ss%2Fw%3Ard"
URL = f"postgresql://ops:{SECRET}@db.example:5433/gpufleet?sslmode=require&password=other"


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/var/lib/gpufleet", "ext4", False),
        ("/home/ops/.run", "nfs4", True),
        ("/home/local/ops", "xfs", False),
        ("/homeless/ops", "tmpfs", False),
        ("/scratch", "lustre", True),
        ("/mnt/two words/run", "cifs", True),
        ("/covered/run", "beegfs", True),
        ("/s3/run", "fuse.mount-s3", True),
        ("/plain/run", "fuse.gocryptfs", False),
    ],
)
def test_the_innermost_and_newest_mount_says_where_a_path_lies(path: str, kind: str, network: bool) -> None:
    found, where = mount_of(Path(path), MOUNTS)
    assert found == kind and path.startswith(where)
    assert is_network(kind) is network


def test_a_history_on_the_network_is_refused_with_the_reason_and_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"{MOUNTS}40 22 0:36 / {tmp_path}/nas rw - nfs4 nas:/x rw\n")
    monkeypatch.setattr(database, "_MOUNTS", mounts)
    (tmp_path / "nas").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nas")
    for path in (tmp_path / "nas/history.sqlite", tmp_path / "link/new/history.sqlite"):
        with pytest.raises(BringupError, match=f"network file system .nfs4, mounted at {tmp_path}/nas") as error:
            open_store(path)
        assert "gpufleet_store_url" in error.value.hint and not path.parent.joinpath("history.sqlite").exists()
    assert open_store(tmp_path / "history.sqlite").sites(rehearsal=False) == ()


def test_a_url_is_shown_without_password_and_options() -> None:
    place = place_of(URL)
    assert isinstance(place, StoreUrl) and place.secret == URL
    assert str(place) == "postgresql://ops@db.example:5433/gpufleet"
    assert SECRET not in repr(place) and place.password == SECRET


def test_a_path_is_a_file(tmp_path: Path) -> None:
    assert place_of(f"{tmp_path}/h.sqlite") == tmp_path / "h.sqlite"
    assert place_of("h.sqlite") == Path.cwd() / "h.sqlite"


@pytest.mark.parametrize(
    ("url", "word"),
    [
        (f"mysql://ops:{SECRET}@db/gpufleet", "a URL of mysql"),
        (f"sqlite:///{SECRET}", "a URL of sqlite"),
        (f"postgresql+psycopg2://ops:{SECRET}@db/gpufleet", "postgresql.psycopg2"),
        (f"postgresql://ops:{SECRET}@db", "names no database"),
        (f"postgresql://ops:{SECRET}@db:many/gpufleet", "can be read"),
    ],
)
def test_a_url_of_something_else_is_refused_without_showing_its_password(url: str, word: str) -> None:
    with pytest.raises(BringupError, match=word) as error:
        place_of(url)
    assert SECRET not in str(error.value) and "postgresql://USER" in error.value.hint


def test_the_url_is_read_from_a_file_that_nobody_else_may_read(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text(f"{URL}\n")
    path.chmod(0o600)
    assert url_from(str(path)) == URL
    path.chmod(0o640)
    with pytest.raises(BringupError, match="others may read: mode 0640") as error:
        url_from(str(path))
    assert SECRET not in str(error.value) and error.value.hint == f"chmod 0600 '{path}'"


@pytest.mark.parametrize("text", ["", "no url\n", f"{URL}\n{URL}\n"])
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "url"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BringupError, match="does not hold one URL"):
        url_from(str(path))
    with pytest.raises(BringupError, match="cannot be read: No such file"):
        url_from(str(tmp_path / "missing"))


def test_a_server_takes_the_place_of_the_file_in_every_module_with_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    templar = Templar(loader=DataLoader(), variables={"word": "w"})
    options = {"store": "/a/file", "gate": "nodes"}
    assert with_server(options, {}, templar) == options
    assert with_server({"gate": "nodes"}, {"gpufleet_store_url": URL}, templar) == {"gate": "nodes"}
    assert with_server(options, {"gpufleet_store_url": URL}, templar) == {"store": URL, "gate": "nodes"}
    monkeypatch.setitem(os.environ, ENVIRONMENT, "postgresql://other@db/gpufleet")
    assert with_server(options, {"gpufleet_store_url": URL}, templar)["store"] == URL
    assert with_server(options, {"gpufleet_store_url": ""}, templar)["store"] == "postgresql://other@db/gpufleet"
    with pytest.raises(BringupError, match="is int"):
        with_server(options, {"gpufleet_store_url": 5432}, templar)
    with pytest.raises(BringupError, match="names no database"):
        with_server(options, {"gpufleet_store_url": "postgresql://db"}, templar)
