# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of settings that were saved with a run, by this release and by older ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.load_growth import LoadGrowthSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.saved_settings import (
    private_thresholds,
    read_settings,
    settings_document,
    with_plan_settings,
    with_settings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    SITE,
    Layer,
    load_settings,
    resolved,
    settings_for,
    shipped,
    shipped_layers,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes.clock_sync import ClockSyncSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.settings import TelemetrySettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

BARE = make_site()
# What a release before settings.json wrote: the settings as `rules`, without those that came later.
OLD: dict[str, Any] = {
    "metrics": {"url": "", "service": "", "way": "service-proxy", "timeout_s": 15.0, "fresh_intervals": 3.0},
    "alert": {"image": "own/python"},
}


def test_settings_survive_in_the_run_directory_with_their_places(tmp_path: Path) -> None:
    stated = {"clock-sync": {"clock_offset_s": 0.5}}
    loaded, _problems = load_settings(all_settings(), [*shipped_layers(all_settings()), Layer(SITE, stated)])
    document = settings_document(loaded)
    assert document["settings"]["clock-sync"]["clock_offset_s"] == {"value": 0.5, "sources": [SITE]}
    assert document["settings"]["gpu-ecc"]["ecc_dram_correctable"]["sources"] == ["release"]
    (tmp_path / "settings.json").write_text(json.dumps(document))
    saved = read_settings(tmp_path, all_settings)
    assert saved["clock-sync"] == {
        "clock_error_s": 0.25,
        "clock_offset_failed_s": 0.05,
        "clock_offset_s": 0.5,
        "fleet_offset_s": 1.0,
        "stratum_spread": 3,
    }
    assert private_thresholds(tmp_path) == {}
    (tmp_path / "settings.json").write_text(json.dumps({"schema_version": 2}))
    with pytest.raises(InputError, match="schema_version"):
        read_settings(tmp_path, all_settings)


def test_private_thresholds_of_a_run_are_known(tmp_path: Path) -> None:
    private = Layer("/own/thresholds/nodes.yaml", {"gpu-ecc": {"ecc_dram_correctable": 5}}, release=True)
    loaded, _problems = load_settings(all_settings(), [*shipped_layers(all_settings()), private])
    (tmp_path / "settings.json").write_text(json.dumps(settings_document(loaded)))
    assert private_thresholds(tmp_path) == {"gpu-ecc": {"ecc_dram_correctable": 5}}
    assert private_thresholds(tmp_path / "other") == {}


def test_limits_of_an_older_run_are_taken_from_its_observations(tmp_path: Path) -> None:
    for name, data in (
        ("nodes/hosts.json", {"rules": {"limits": {"clock_offset_s": 0.25, "link_flaps": 9}, "catalogue": {}}}),
        ("fabric/fabric.json", {"limits": {"growth_per_hour": {"SymbolErrorCounter": 1}}}),
    ):
        path = tmp_path / "observations" / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"data": data}))
    saved = read_settings(tmp_path, all_settings)
    assert saved == {
        "clock-sync": {"clock_offset_s": 0.25},
        "hca-state": {"link_flaps": 9},
        "link-errors": {"growth_per_hour": {"SymbolErrorCounter": 1}},
    }
    assert settings_for(ClockSyncSettings, "clock-sync", {}, saved["clock-sync"]).clock_offset_s == 0.25
    assert read_settings(tmp_path / "other", all_settings) == {}


def test_a_setting_that_a_saved_run_lacks_is_as_this_release_ships_it(tmp_path: Path) -> None:
    found = with_settings({"rules": OLD, "series": []}, TelemetrySettings, "telemetry", BARE, tmp_path)["settings"]
    ours = shipped("telemetry", TelemetrySettings)
    assert found["metrics"]["way"] == "service-proxy" and found["metrics"]["fresh_intervals"] == 3.0
    assert found["metrics"]["settle_s"] == ours["settle_s"]
    assert found["alert"]["image"] == "own/python" and found["alert"]["fire_s"] == ours["fire_s"]
    assert list(found["host_labels"]) == ours["host_labels"]


def test_what_the_site_states_wins_over_what_was_saved(tmp_path: Path) -> None:
    site = replace(BARE, settings={"telemetry": {"fresh_intervals": 5.0, "ctrf": {"own": "x.json"}}})
    data = {"plan": {"rules": OLD}, "runs": []}
    plan = with_plan_settings(data, TelemetrySettings, "telemetry", site, tmp_path)["plan"]
    assert plan["settings"]["metrics"]["fresh_intervals"] == 5.0
    assert "rules" not in plan


@pytest.mark.parametrize("data", [None, [], {}, {"rules": 5}, {"settings": {"metrics": {"urls": ""}}}])
def test_saved_data_that_is_not_settings_is_refused(tmp_path: Path, data: Any) -> None:
    with pytest.raises(InputError):
        with_settings(data, TelemetrySettings, "telemetry", BARE, tmp_path)
    with pytest.raises(InputError):
        with_plan_settings({"plan": data}, TelemetrySettings, "telemetry", BARE, tmp_path)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"fresh_intervals": 6.0}, "its setting fresh_intervals is 6.0, the run's own is 2"),
        ({"fresh_intervals": 0.5}, "expected 1 or more"),
    ],
)
def test_an_observation_is_not_judged_by_settings_that_its_run_did_not_have(
    tmp_path: Path, own: dict[str, Any], words: str
) -> None:
    loaded, _problems = load_settings(all_settings(), shipped_layers(all_settings()))
    (tmp_path / "settings.json").write_text(json.dumps(settings_document(loaded)))
    good = with_settings({"settings": {"metrics": {}}}, TelemetrySettings, "telemetry", BARE, tmp_path)["settings"]
    again = with_settings({"settings": json.loads(json.dumps(good))}, TelemetrySettings, "telemetry", BARE, tmp_path)
    assert again["settings"]["metrics"]["fresh_intervals"] == 2.0
    with pytest.raises(InputError, match=words):
        with_settings({"settings": {"metrics": own}}, TelemetrySettings, "telemetry", BARE, tmp_path)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (None, "settings is not whole"),
        ({"clock-sync": None}, "clock-sync is not whole"),
        ({"clock-sync": {"clock_offset_s": {"sources": ["release"]}}}, "clock-sync.clock_offset_s is not whole"),
        ({"clock-sync": {"clock_offset_s": {"value": 1}}}, "clock-sync.clock_offset_s is not whole"),
    ],
)
def test_settings_that_were_cut_are_refused(tmp_path: Path, settings: Any, named: str) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"schema_version": 1, "settings": settings}))
    with pytest.raises(InputError, match=named):
        read_settings(tmp_path, all_settings)


def test_a_saved_mapping_stands_as_it_is_and_what_is_stated_is_laid_over_it_by_key() -> None:
    saved = {"port_counters": {"symbol_error": 7}}
    stated = {"port_counters": {"rx_drops": 3}}
    ours = shipped("host-state-after-nccl", LoadGrowthSettings)
    found = resolved(ours, saved, stated)
    assert found["port_counters"] == {"symbol_error": 7, "rx_drops": 3}
    assert found["pcie_replays"] == ours["pcie_replays"]
    assert len(resolved(ours, None, stated)["port_counters"]) > 2, "of a run without saved settings"
