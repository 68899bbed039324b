# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Records that earlier releases wrote are read, and nothing else is guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import NotDeclared
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import RunRecord, new_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.saved import record_from_plain

REASON = "needs facility_record: the provider owns the room (and its PDUs)"


def _record() -> RunRecord:
    record = new_run("r-1", "s", "2026-11-21T10:00:00Z", ("facility",), rehearsal=False)
    left_out = NotDeclared(id="facility-power", title="", reason=REASON)
    verdict = replace(record.gate("facility"), not_declared=(left_out,), key_figure="not declared here")
    return record.with_gate(verdict)


def _plain() -> Any:
    return json.loads(dumps(_record()))


def test_a_record_of_today_is_read_back() -> None:
    assert record_from_plain(_plain(), "run.json") == _record()


def test_a_record_of_version_1_is_the_same_record() -> None:
    old = _plain()
    for gate in old["gates"]:
        gate["schema_version"] = 1
        gate["headline"] = gate.pop("key_figure")
        gate["not_declared"] = [f"{left['id']} ({left['reason']})" for left in gate["not_declared"]]
    assert record_from_plain(old, "run.json") == _record()


@pytest.mark.parametrize("broken", [[], None, {"gates": "none"}, {"gates": [1]}])
def test_what_is_no_record_is_refused(broken: Any) -> None:
    with pytest.raises(InputError, match=r"run\.json"):
        record_from_plain(broken, "run.json")


def test_names_of_version_1_are_unknown_today() -> None:
    plain = _plain()
    plain["gates"][0]["headline"] = "8 GPUs"
    with pytest.raises(InputError, match="headline"):
        record_from_plain(plain, "run.json")


def test_a_gate_that_the_run_did_not_know_yet_is_not_decided() -> None:
    plain = _plain()
    plain["gates"] = [gate for gate in plain["gates"] if gate["gate"] != "telemetry"]
    record = record_from_plain(plain, "run.json")
    assert record.gate("telemetry").status is Status.PENDING
    assert tuple(verdict.gate for verdict in record.gates) == GATE_IDS
    assert record.gate("facility") == _record().gate("facility")
