# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that dies in the middle ends its own result."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.host_limit import host_limit, keep_alive
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import longest_s, node_requests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError


class Connection:
    def __init__(self, transport: str, **options: str) -> None:
        self.transport = transport
        self.options = {"ssh_args": "-C", "ssh_common_args": "", "ssh_extra_args": "", **options}

    def get_option(self, name: str) -> str:
        return self.options[name]

    def set_option(self, name: str, value: str) -> None:
        self.options[name] = value


def test_openssh_asks_whether_the_host_is_there() -> None:
    connection = Connection("ssh", ssh_extra_args="-v")
    keep_alive(connection)
    assert connection.options["ssh_extra_args"] == "-v -o ServerAliveInterval=15 -o ServerAliveCountMax=3"


@pytest.mark.parametrize("name", ["ssh_args", "ssh_common_args", "ssh_extra_args"])
def test_a_sites_own_interval_stays(name: str) -> None:
    connection = Connection("ssh", **{name: "-o serveralivEInterval=5"})
    before = dict(connection.options)
    keep_alive(connection)
    assert connection.options == before


def test_other_connections_are_left_alone() -> None:
    connection = Connection("local")
    keep_alive(connection)
    assert connection.options["ssh_extra_args"] == ""


def test_a_host_that_hangs_ends_at_its_limit_with_what_waits_for_it() -> None:
    began = time.monotonic()
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(DeadlineError, match=r"gpu07: did not answer within 0\.3 s"), host_limit("gpu07", 0.3):
        time.sleep(30)
    assert time.monotonic() - began < 5
    assert process.wait(5) == -signal.SIGKILL


def test_a_host_that_answers_ends_nothing_and_the_limit_of_the_task_goes_on() -> None:
    before = signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 50)
    try:
        with host_limit("gpu07", 30):
            pass
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_limit_covers_every_tool_one_after_the_other() -> None:
    requests = node_requests(diag_level=3)
    # What reads beside the diagnostic ends with it.
    quick = [request for request in requests if not request["alone"] and not request["beside"]]
    assert longest_s(requests) >= 1800 + sum(request["timeout_s"] for request in quick)
    assert longest_s(node_requests(diag_level=0)) < longest_s(requests)
