# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether hosts are simulated is seen from their connection plugin, and one simulated host is enough."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base import simulated as subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.simulated import hosts_are_simulated
from ansible_collections.gpufleet.rehearsal.plugins.connection.rehearsal import Connection


class Loader:
    """Finds our connection as Ansible does where the collection is installed."""

    @staticmethod
    def get(name: str, **_options: Any) -> type | None:
        return {"ssh": object, "local": object, Connection.transport: Connection}.get(name)


@pytest.fixture(autouse=True)
def loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "connection_loader", Loader)
    subject._simulates_hosts.cache_clear()


def task_vars(*connections: str | None) -> dict[str, Any]:
    hosts = {f"n{number}": {"ansible_connection": connection} for number, connection in enumerate(connections)}
    return {"groups": {"gpu_nodes": list(hosts)}, "hostvars": hosts}


@pytest.mark.parametrize(
    ("connections", "simulated"),
    [
        ((), False),
        ((None, "ssh", "local"), False),
        (("no.such.connection",), False),
        (("ssh", "gpufleet.rehearsal.rehearsal"), True),
    ],
)
def test_the_connection_says_it(connections: tuple[str | None, ...], simulated: bool) -> None:
    assert hosts_are_simulated("gpu_nodes", task_vars(*connections)) is simulated
