# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a pod that was to print something on its node, and who ended it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_pods import Printed, _printed

LOW = "The node was low on resource: memory."


def printed(phase: str, state: dict[str, Any] | None = None, reason: str = "", message: str = "") -> Printed:
    status = {"phase": phase, "reason": reason, "message": message}
    status |= {"containerStatuses": [{"name": "facts", "state": state}]} if state else {}
    pod = {"metadata": {"name": "n0"}, "spec": {"nodeName": "gpu01"}, "status": status}
    cluster = SimpleNamespace(logs=lambda *_words, **_how: "a line\n", transport=SimpleNamespace(outage=Outage(0.0)))
    return _printed(cast("Any", SimpleNamespace(cluster=cluster, name="t")), pod, "")


@pytest.mark.parametrize(
    ("found", "log", "reason"),
    [
        (printed("Succeeded", {"terminated": {"exitCode": 0}}), "a line\n", ""),
        (
            printed("Failed", {"terminated": {"exitCode": 3, "reason": "Error"}}), "a line\n",
            "its pod ended with 3: Error",
        ),
        (printed("Failed", None, "DeadlineExceeded", "too long"), "a line\n", "its pod did not end in time: too long"),
        (printed("Failed", None, "OutOfcpu", "no room"), "a line\n", "its pod did not run: no room"),
        (printed("Running", {"running": {}}), "a line\n", "its pod did not end in time: no reason"),
        (
            printed("Failed", {"terminated": {"exitCode": 137}}, "Evicted", LOW), "",
            f"its pod was ended by somebody else: n0 on gpu01 was evicted: {LOW}",
        ),
    ],
)  # fmt: skip
def test_how_it_ended_is_said_and_who_ended_it(found: Printed, log: str, reason: str) -> None:
    assert (found.log, found.reason) == (log, reason)
