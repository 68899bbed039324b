# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every site profile accounts for every capability word, with a reason for each one that it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.profiles import load_profiles

RECIPES = Path(__file__).resolve().parents[5] / "recipes"


def test_cloud_lacks_what_a_tenant_cannot_see_and_says_why() -> None:
    profiles = load_profiles([RECIPES])
    assert set(profiles["cloud"].missing) == {"facility_record", "subnet_manager", "bmc"}
    assert set(profiles["on_premises"].capabilities) == set(profiles["colocation"].capabilities)
    assert "facility_record" in profiles["on_premises"].capabilities
    assert not profiles["on_premises"].missing


def _changed(tmp_path: Path, old: str, new: str) -> Path:
    text = (RECIPES / "site_profiles.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "site_profiles.yaml").write_text(text.replace(old, new), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bmc: the provider does not", "bmcc: the provider does not", "unknown capability 'bmcc'"),
        (
            "    capabilities: [host_access, kubernetes]",
            "    capabilities: [kubernetes]",
            "'host_access' must be listed",
        ),
        ("  cloud:", "  clowd:", "did you mean 'cloud'"),
        ("    title: Cloud tenant", "    titel: Cloud tenant", "did you mean 'title'"),
        ("bmc: the provider does not expose management controllers to tenants", "bmc: ''", "is empty"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_profiles([_changed(tmp_path, old, new)])
    assert said in str(caught.value)


def test_a_later_directory_replaces_a_profile_and_an_empty_list_is_an_error(tmp_path: Path) -> None:
    later = _changed(tmp_path, "title: Cloud tenant", "title: Our cloud")
    assert load_profiles([RECIPES, later])["cloud"].title == "Our cloud"
    with pytest.raises(NotFoundError):
        load_profiles([])
