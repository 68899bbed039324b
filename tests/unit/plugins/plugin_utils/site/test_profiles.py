# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every site profile accounts for every capability word, with a reason for each one that it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import load_profiles

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


def _taken_away(tmp_path: Path, author: str) -> Path:
    without = _changed(tmp_path, "    capabilities: [host_access, kubernetes]", "    capabilities: [kubernetes]")
    path = without / "site_profiles.yaml"
    text = path.read_text("utf-8").replace(
        "      bmc: the provider", "      host_access: not at this site\n      bmc: the provider"
    )
    path.write_text(f"{text}{author}", "utf-8")
    return without


@pytest.mark.parametrize("author", ["", "author: ''\n", "author: '  '\n"])
def test_a_file_that_takes_words_away_names_who_decided_it(tmp_path: Path, author: str) -> None:
    """Three gates were skipped by such a file, and the report told nothing of whose it was."""
    with pytest.raises(InputError, match="takes host_access away"):
        load_profiles([RECIPES, _taken_away(tmp_path, author)])


def test_who_took_a_word_away_stands_in_the_reason_of_each_check_that_is_not_declared(tmp_path: Path) -> None:
    later = _taken_away(tmp_path, "author: J. Doe, network team\n")
    missing = load_profiles([RECIPES, later])["cloud"].missing
    said = f"not at this site (taken away by J. Doe, network team in {later / 'site_profiles.yaml'})"
    assert missing["host_access"] == said
    assert "taken away" not in missing["bmc"], "the release's own profile has it not"


def test_a_later_directory_replaces_a_profile_and_an_empty_list_is_an_error(tmp_path: Path) -> None:
    later = _changed(tmp_path, "title: Cloud tenant", "title: Our cloud")
    assert load_profiles([RECIPES, later])["cloud"].title == "Our cloud"
    with pytest.raises(NotFoundError):
        load_profiles([])
