# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the real chart against which a component was held last."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from own_chart import packed, written

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.tree import catalogue_directories
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml
from tools import chart_values
from tools.catalog_check import problems_of
from tools.chart_proven import FILE, digest_of, notes, record


def test_the_digest_is_that_of_the_files(tmp_path: Path) -> None:
    directory = written(tmp_path / "cert-manager")
    with tarfile.open(tmp_path / "c.tgz", "w:gz") as archive:
        archive.add(directory, "cert-manager")
    assert digest_of(directory) == digest_of(tmp_path / "c.tgz")
    same = {digest_of(packed(tmp_path / name)) for name in ("a.tgz", "b.tgz")}
    other = digest_of(written(tmp_path / "c", {"values.yaml": "replicaCount: 9\n"}))
    assert (len(same), other in same, other.startswith("sha256:")) == (1, False, True)


def test_a_chart_that_says_nothing_for_all_recipes_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chart_values, "helm_render", lambda *_given: lambda _question: "")
    chart, path = packed(tmp_path / "c.tgz"), tmp_path / "recipes" / "components" / "cert-manager" / FILE
    asked = [str(chart), "--record", str(tmp_path / "recipes")]
    for said, more, written_down in (
        (["unknown: x"], [], False),
        ([], ["--recipe", "service=eks"], False),
        ([], [], True),
    ):
        monkeypatch.setattr(chart_values, "proved", lambda *_given, said=said, **_more: said)
        assert chart_values.main([*asked, *more]) == int(bool(said))
        assert path.exists() == written_down
    assert f"recorded: {path}" in capsys.readouterr().out
    day = datetime.now(UTC).date().isoformat()
    expected = {"version": "9.9.9", "digest": digest_of(chart), "date": day, "kubernetes": "1.34.0"}
    assert read_yaml(path) == expected


def test_charts_without_a_record_and_with_one_of_another_version_are_noted(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    pinned = catalogue.registry["volcano"].default("helm", "defaultVersion")
    chart = packed(tmp_path / "c.tgz")
    record(tmp_path, "volcano", chart, f"v{pinned}", "1.34.0")
    record(tmp_path, "kueue", chart, "0.1.0", "1.34.0")
    never, other = notes(tmp_path, catalogue)
    assert "cert-manager" in never and "volcano" not in never and "kueue" not in never and "gateway-api" not in never
    assert other.startswith("held against another version than the pinned one: kueue (pinned ")
    assert "held against 0.1.0" in other and "volcano" not in other
    (tmp_path / "components" / "kueue" / FILE).write_text("version: 1.0.0\n", encoding="utf-8")
    assert any(FILE in note and "digest" in note for note in notes(tmp_path, catalogue))


def test_a_record_is_no_file_that_nothing_reads(tmp_path: Path) -> None:
    record(tmp_path, "volcano", packed(tmp_path / "c.tgz"), "1.15.1", "1.34.0")
    (tmp_path / "c.tgz").unlink()
    assert load_catalogue(catalogue_directories([tmp_path])).warnings == ()
    assert problems_of(tmp_path) == []
