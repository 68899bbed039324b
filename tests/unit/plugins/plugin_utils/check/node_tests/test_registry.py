# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of idle nodes: each file is one, with defaults of its own that a site may state otherwise."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.registry import (
    enabled_tests,
    node_tests,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import release_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError


def context(tmp_path: Path, settings: dict[str, Any]) -> ObserveContext:
    site = make_site(("gpu01",), name="here", capabilities=("kubernetes",), settings=settings)
    return ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1))


def test_every_test_has_a_title_and_defaults() -> None:
    assert "nccl_loop" in node_tests()
    for name, test in node_tests().items():
        assert name == test.id and test.title and release_settings()[name]["days"] > 0


def test_a_site_switches_a_test_off_and_says_how_old_results_may_be(tmp_path: Path) -> None:
    others = {name for name in node_tests() if release_settings()[name]["enabled"]} - {"nccl_loop"}
    off = enabled_tests(context(tmp_path, {"nccl_loop": {"enabled": False}}))
    assert {test.id for test in off} == others
    (loop,) = (t for t in enabled_tests(context(tmp_path, {"nccl_loop": {"days": 2.5}})) if t.id == "nccl_loop")
    assert loop.common.days == 2.5


def test_a_setting_that_is_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemsError, match="nccl_loop"):
        enabled_tests(context(tmp_path, {"nccl_loop": {"days": -1}}))
