# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt says of packages, by a real apt over a repository of its own whose newest versions nobody wants."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.module_utils import host_packages
from ansible_collections.gpufleet.bringup.plugins.module_utils.host_packages import (
    duplicates,
    packages,
    simulate,
    unfinished,
)

OLD, NEW = "580.95.05-1ubuntu1", "580.105.08-1ubuntu1"
STATUS = (
    "Package: {0}\nStatus: install ok installed\nVersion: {1}\nArchitecture: all\nMaintainer: n\nDescription: d\n\n"
)
HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(flush=True)
    sys.stdin.read()
"""
needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")


def stanza(name: str, version: str, depends: str = "") -> str:
    more = f"Depends: {depends}\n" if depends else ""
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: n\n{more}"
        f"Filename: ./{name}_{version}.deb\nSize: 1\nSHA256: {'0' * 64}\nDescription: d\n\n"
    )


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt whose directories are all below one of ours; returns the status file of its dpkg."""
    repository = tmp_path / "repository"
    for path in ("repository", "etc/apt", "state/lists/partial", "cache/archives/partial", "updates", "info"):
        (tmp_path / path).mkdir(parents=True)
    versions = "".join(
        stanza("nvidia-dkms-580-open", version, f"nvidia-kernel-common-580 (= {version})")
        + stanza("nvidia-kernel-common-580", version, f"nvidia-modprobe (>= {version})")
        + stanza("nvidia-modprobe", version)
        + stanza("nvidia-fabricmanager", version)
        for version in (OLD, NEW)
    )
    (repository / "Packages").write_text(versions, "utf-8")
    status = tmp_path / "status"
    status.write_text("", "utf-8")
    (tmp_path / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n", "utf-8")
    config = tmp_path / "apt.conf"
    config.write_text(
        f'Dir::Etc "{tmp_path}/etc/apt";\nDir::State "{tmp_path}/state";\nDir::State::status "{status}";\n'
        f'Dir::Cache "{tmp_path}/cache";\nAPT::Architecture "amd64";\nAPT::Sandbox::User "root";\n',
        "utf-8",
    )
    monkeypatch.setenv("APT_CONFIG", str(config))
    asked = host_packages.run
    assert asked(["apt-get", "update"])[0] == 0

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        # dpkg-query knows no APT_CONFIG.
        admin = ["--admindir", str(tmp_path)] if command[0] == "dpkg-query" else []
        return asked([command[0], *admin, *command[1:]])

    monkeypatch.setattr(host_packages, "run", run)
    monkeypatch.setattr(host_packages, "_DPKG", str(tmp_path))
    return status


@needs_apt
def test_offers_are_listed_with_their_repository_the_newest_first(apt: Path) -> None:
    apt.write_text(STATUS.format("nvidia-fabricmanager", NEW), "utf-8")
    found = packages("debian", ["nvidia-fabricmanager", "nvidia-imex"])
    manager = found["nvidia-fabricmanager"]
    assert manager["installed"] == NEW
    assert [offer["version"] for offer in manager["available"]] == [NEW, OLD]
    assert all("repository" in offer["origin"] for offer in manager["available"])
    assert found["nvidia-imex"] == {"installed": "", "held": False, "available": []}


@needs_apt
def test_the_newest_dependency_breaks_an_exact_version_unless_it_is_pinned(apt: Path) -> None:
    del apt
    wanted = [f"nvidia-dkms-580-open={OLD}"]
    assert "nvidia-kernel-common-580" in simulate("debian", wanted, "", "")["error"]
    names = ("nvidia-dkms-580-open", "nvidia-kernel-common-580", "nvidia-modprobe")
    pins = "".join(f"Package: {name}\nPin: version {OLD}\nPin-Priority: 1001\n\n" for name in names)
    assert simulate("debian", wanted, pins, "") == {"install": dict.fromkeys(names, OLD), "remove": [], "error": ""}


@needs_apt
def test_a_downgrade_of_what_does_not_match_is_simulated(apt: Path) -> None:
    apt.write_text(STATUS.format("nvidia-fabricmanager", NEW), "utf-8")
    found = simulate("debian", [f"nvidia-fabricmanager={OLD}"], "", "")
    assert found == {"install": {"nvidia-fabricmanager": OLD}, "remove": [], "error": ""}


@needs_apt
def test_a_version_that_is_not_there_is_an_error_in_words(apt: Path) -> None:
    del apt
    assert "580.126.09" in simulate("debian", ["nvidia-fabricmanager=580.126.09-1"], "", "")["error"]


@needs_apt
def test_what_a_dpkg_that_was_ended_left_is_named_and_finished_packages_are_not(apt: Path) -> None:
    half = STATUS.format("nvidia-dkms-580-open", OLD).replace("ok installed", "ok half-configured")
    kept = STATUS.format("nvidia-modprobe", OLD).replace("install ok installed", "deinstall ok config-files")
    apt.write_text(STATUS.format("nvidia-fabricmanager", NEW) + kept + half, "utf-8")
    assert unfinished("debian") == ["nvidia-dkms-580-open"]
    assert packages("debian", ["nvidia-dkms-580-open"])["nvidia-dkms-580-open"]["installed"] == ""
    apt.write_text(STATUS.format("nvidia-fabricmanager", NEW), "utf-8")
    assert unfinished("debian") == []
    # What it did not write into its table yet: apt refuses everything because of it.
    (apt.parent / "updates" / "0000").write_text(STATUS.format("nvidia-modprobe", OLD), "utf-8")
    assert unfinished("debian") == ["dpkg"]
    assert unfinished("redhat") == []


@needs_apt
def test_a_dpkg_that_still_works_finishes_by_itself(apt: Path) -> None:
    apt.write_text(STATUS.format("nvidia-modprobe", OLD).replace("ok installed", "ok unpacked"), "utf-8")
    lock = apt.parent / "lock-frontend"
    lock.touch()
    assert unfinished("debian") == ["nvidia-modprobe"]
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert unfinished("debian") == []
        other.communicate()
    assert unfinished("debian") == ["nvidia-modprobe"]


def test_a_package_that_rpm_has_twice_is_named_with_its_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "3:580.95.05-1.el9", "3:580.105.08-1.el9"
    rows = (
        f"nvidia-fabricmanager\t{old}",
        f"nvidia-fabricmanager\t{new}",
        f"nvidia-imex\t{new}",
        "package x is not installed",
    )
    monkeypatch.setattr(host_packages, "run", lambda _command: (1, "\n".join(rows), ""))
    names = ["nvidia-fabricmanager", "nvidia-imex", "x"]
    assert duplicates("redhat", names) == {"nvidia-fabricmanager": sorted((old, new))}
    assert duplicates("debian", names) == {} == duplicates("redhat", [])


@pytest.mark.parametrize(
    ("plugin", "dnf", "says"),
    [
        ("[main]\nenabled = 1\nlocklist = /etc/dnf/plugins/versionlock.list\n", "[main]\ngpgcheck=1\n", ""),
        ("[main]\nenabled = 0\n", "", "enabled=0"),
        ("[main]\nenabled = 1\n", "[main]\nplugins=0\n", "plugins=0"),
        ("[main]\nenabled = 1\nlocklist = /srv/locks\n", "", "locklist=/srv/locks"),
        ("no section\n", "", "cannot be read"),
        (None, "[main]\nplugins=0\n", ""),
    ],
)
def test_a_version_lock_that_dnf_does_not_heed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str | None, dnf: str, says: str
) -> None:
    for name, text in (("_LOCK_CONFIG", plugin), ("_DNF_CONFIG", dnf)):
        monkeypatch.setattr(host_packages, name, str(tmp_path / name))
        if text is not None:
            (tmp_path / name).write_text(text, "utf-8")
    found = host_packages.locks_off("redhat")
    assert says in found and bool(found) == bool(says)
    assert host_packages.locks_off("debian") == ""


def test_without_a_package_manager_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_packages, "run", lambda _command: (127, "", "dpkg-query: not found"))
    with pytest.raises(OSError, match="not found"):
        packages("debian", ["nvidia-fabricmanager"])
    assert simulate("debian", ["a"], "", "")["error"]
    assert simulate("redhat", ["a"], "", "")["error"]
