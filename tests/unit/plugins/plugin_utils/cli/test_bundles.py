# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the commands about bundles say and end with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from bundles import ASKED
from gpufleet_command import Command

FLAGS = ("--service", "generic", "--accelerator", "h100", "--intent", "training")


def test_criteria_flags_and_both_forms_of_a_file_give_the_same_bundle(gpufleet: Command, tmp_path: Path) -> None:
    gpufleet("recipe", *FLAGS, "-o", str(tmp_path / "recipe.yaml"))
    gpufleet("recipe", *FLAGS, "--hydrated", "-o", str(tmp_path / "hydrated.json"))
    ways = {
        "criteria": (ASKED,),
        "flags": FLAGS,
        "plain": (f"{tmp_path}/recipe.yaml",),
        "full": (f"{tmp_path}/hydrated.json",),
    }
    found = {}
    for name, words in ways.items():
        done = gpufleet("bundle", *words, "--into", str(tmp_path / name), "--format", "json")
        assert (done.code, done.err) == (0, ""), done
        found[name] = json.loads(done.out)
        assert gpufleet("bundle-verify", str(tmp_path / name)).code == 0
    assert len({entry["sha256"] for entry in found.values()}) == 1
    assert {entry["changed"] for entry in found.values()} == {True}


def test_a_bundle_is_told_in_lines_and_stays_where_nothing_changes(gpufleet: Command, tmp_path: Path) -> None:
    place = tmp_path / "stack"
    first, again = (gpufleet("bundle", ASKED, "--into", str(place)) for _time in range(2))
    assert first.out.splitlines()[0] == f"bundle    {place}"
    assert again.out.splitlines() == [f"bundle    {place} (unchanged)", *first.out.splitlines()[1:]]
    assert "9 components in 10 folders, 40 files, for helm" in first.out
    valid = gpufleet("bundle-verify", str(place))
    assert valid.out.startswith("valid: 40 files, for helm, checksums.txt sha256 ")
    assert first.out.split("sha256    ")[1].split()[0] in valid.out
    (place / "more").write_text("x", encoding="utf-8")
    done = gpufleet("bundle-verify", str(place))
    assert (done.code, done.out) == (2, "invalid: more is not in checksums.txt\n")
    told = json.loads(gpufleet("bundle-verify", str(place), "--format", "json").out)
    assert (told["answer"], told["faults"]) == ("invalid", ["more is not in checksums.txt"])


def test_secrets_are_named_and_written_where_they_are_wanted(gpufleet: Command, tmp_path: Path) -> None:
    words = ("bundle", ASKED, "--into", str(tmp_path / "stack"), "--set")
    words += ("kube-prometheus-stack:grafana.adminPassword=hunter2",)
    done = gpufleet(*words)
    assert done.code == 0
    assert "warning: secrets are in no file of the bundle (kube-prometheus-stack: grafana.adminPassword)" in done.err
    kept = gpufleet(*words, "--secrets-into", str(tmp_path / "secrets"))
    assert (kept.code, kept.err) == (0, "")
    path = tmp_path / "secrets" / "kube-prometheus-stack.yaml"
    assert kept.out.endswith(f"secrets   {path}\n")
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == {"grafana": {"adminPassword": "hunter2"}}
    assert "hunter2" not in done.out + done.err + kept.out


def test_the_owner_of_the_driver_is_laid_over_it(gpufleet: Command, tmp_path: Path) -> None:
    asked = ("--service", "generic", "--accelerator", "h100", "--os", "ubuntu", "--intent", "training")
    gpufleet("recipe", *asked, "-o", str(tmp_path / "recipe.yaml"))
    values = []
    for number, words in enumerate((asked, (str(tmp_path / "recipe.yaml"),))):
        place = tmp_path / str(number)
        assert gpufleet("bundle", *words, "--driver-owner", "host", "--into", str(place)).code == 0
        (path,) = place.glob("*-gpu-operator/values.yaml")
        values.append(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert values[0] == values[1]
    assert values[0]["driver"]["enabled"] is False


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        (("--into", "X"), 2, "no recipe is named. Fix: name a file, or criteria such as --service eks"),
        ((ASKED,), 2, "--into"),
        ((ASKED, "--into", "X", "--deployer", "hlem"), 2, "'hlem' is no --deployer. Fix: did you mean helm?"),
        ((ASKED, "--into", "X", "--repo", "https://x"), 2, "takes no --repo, --revision and --path"),
        (("nothing.yaml", "--into", "X"), 3, "nothing.yaml: does not exist. Fix: name the file of a recipe"),
        (("F", "--into", "X", "--service", "eks"), 2, "is resolved already, and flags ask for another one"),
        (("H", "--into", "X", "--driver-owner", "host"), 2, "comes too late for"),
        (("F", "--into", "F"), 2, "is a file. Fix: name a directory with --into"),
        (("F", "--into", "F/x"), 8, "cannot be written"),
        (("F", "--into", "."), 2, "is no bundle: it has files, and no bundle.yaml"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: tuple[str, ...], code: int, wanted: str, gpufleet: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gpufleet("recipe", *FLAGS, "-o", "F")
    gpufleet("recipe", *FLAGS, "--hydrated", "-o", "H")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = gpufleet("bundle", *words)
    assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1), done
    assert wanted in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_is_no_bundle_is_not_found(gpufleet: Command, tmp_path: Path) -> None:
    done = gpufleet("bundle-verify", str(tmp_path))
    assert (done.code, done.out) == (3, "")
    assert "is no bundle: it has no checksums.txt. Fix: name the directory that gpufleet bundle wrote" in done.err


def test_what_kustomize_cannot_build_is_said_with_the_flag_that_helps(
    gpufleet: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "service=generic,accelerator=h100,intent=inference,platform=dynamo"
    (tmp_path / "mirror").mkdir()
    words = ("bundle", question, "--into", str(tmp_path / "stack"), "--chart-mirror", str(tmp_path / "mirror"))
    done = gpufleet(*words)
    assert done.code == 2
    assert "gateway-api-v" in done.err
    assert "--chart-mirror" in done.err
    assert "gpufleet_chart_mirror" not in done.err
    assert not (tmp_path / "stack").exists()
