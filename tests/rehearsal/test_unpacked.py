# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs out of unpacked packages run with the libraries of those packages, on a machine that has nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric import plan as fabric
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.plan import (
    FabricPrograms,
    ensure_programs,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry import programs as telemetry
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.programs import (
    Prometheus,
    ensure_prometheus,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain import packages as unpacking
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.packages import (
    Fetching,
    Packages,
    ensure_unpacked,
    loader_of,
)

# What every Debian and Ubuntu has, whatever else is installed: the C library.
BASE = {"libc6", "libgcc-s1"}


@dataclass(frozen=True)
class Unpacked:
    """What was unpacked into an empty cache."""

    cache: Path
    fabric: FabricPrograms
    prometheus: Prometheus

    def started(self) -> list[tuple[str, dict[str, str]]]:
        """Every program and library that a rehearsal starts, with what it adds to the environment of it."""
        client = self.fabric.client("name", "ident")
        programs = [(path, client) for path in self.fabric.paths.values()]
        own = self.fabric.environment()
        return [
            *programs, (self.fabric.paths["ibsim"], own), (self.fabric.simulation, own),
            (self.prometheus.path, self.prometheus.environment),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """Unpack everything into an empty cache, as on a machine that has none of the programs."""
    cache = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        nothing_installed(patch)
        try:
            return Unpacked(cache, ensure_programs(cache, Progress(print)), ensure_prometheus(cache, Progress(print)))
        except UnavailableError as error:
            pytest.skip(str(error))


def nothing_installed(patch: pytest.MonkeyPatch) -> None:
    """Let this machine have none of the programs."""
    find, find_prometheus = fabric.find_programs, telemetry.find_prometheus
    patch.setattr(fabric, "find_programs", lambda root: None if root == Path("/") else find(root))
    patch.setattr(telemetry, "find_prometheus", lambda root: None if root == Path("/") else find_prometheus(root))


def loaded(program: str, environment: Mapping[str, str], loader: str) -> list[str]:
    """Ask the loader for the path of everything that it loads."""
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C", **environment}
    done = subprocess.run([loader, "--list", program], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), program
    assert "not found" not in done.stdout, done.stdout
    words = [line.split(" (")[0].split(" => ")[-1].strip() for line in done.stdout.splitlines()]
    return [word for word in words if word.startswith("/")]


def packages_of(path: str) -> set[str]:
    """Return the installed packages that a file belongs to, under either name of the merged /usr."""
    names = {path, f"/usr{path}", path.removeprefix("/usr")}
    said = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True, check=False).stdout
    return {line.partition(":")[0] for line in said.splitlines()}


def test_nothing_beyond_the_base_system_comes_from_outside_the_root(unpacked: Unpacked) -> None:
    loader = loader_of(Path(unpacked.fabric.paths["ibsim"]))
    outside: dict[str, set[str]] = {}
    for program, environment in unpacked.started():
        assert program.startswith(str(unpacked.cache))
        for path in loaded(program, environment, loader):
            if not path.startswith(str(unpacked.cache)):
                outside.setdefault(path, set()).add(program)
    owners = {path: packages_of(path) for path in outside}
    foreign = {path: outside[path] for path, owner in owners.items() if not owner or owner - BASE}
    assert outside, "not even the C library"
    assert not foreign, f"{owners}"


def test_the_libraries_reach_every_program(unpacked: Unpacked) -> None:
    within = {path for program, environment in unpacked.started()
              for path in loaded(program, environment, loader_of(Path(unpacked.fabric.paths["ibsim"])))
              if path.startswith(str(unpacked.cache))}  # fmt: skip
    names = {Path(path).name.split(".so")[0] for path in within}
    assert {"libibmad", "libibumad", "libibnetdisc", "libopensm", "libosmvendor", "libumad2sim"} <= names


def problem(unpacked: Unpacked) -> str:
    packages = Packages(fabric.PACKAGES, unpacked.cache / "infiniband" / "root", "", "")
    return packages.problem(list(unpacked.fabric.paths.values()), unpacked.fabric.client("name", "ident"))


def test_a_tree_that_lacks_a_library_is_made_anew(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_installed(monkeypatch)
    # What apt is asked for again is not the question here.
    fetched: list[Path] = []

    def unpack(fetching: Fetching) -> None:
        packages = fetching.packages
        fetched.append(packages.root)
        shutil.rmtree(packages.root.parent)
        shutil.copytree(unpacked.cache / "infiniband", packages.root.parent, symlinks=True)

    monkeypatch.setattr(unpacking, "_unpack", unpack)
    cache = tmp_path / "cache"
    shutil.copytree(unpacked.cache / "infiniband", cache / "infiniband", symlinks=True)
    ensure_programs(cache, Progress(print))
    assert fetched == []
    (library,) = (cache / "infiniband" / "root").glob("usr/lib/*/libosmvendor.so.5")
    library.unlink()
    assert ensure_programs(cache, Progress(print)).paths["opensm"].startswith(str(cache))
    assert fetched == [cache / "infiniband" / "root"]
    assert library.exists()


def test_a_tree_of_an_older_release_or_of_an_interrupted_one_is_made_anew(unpacked: Unpacked) -> None:
    stamp = unpacked.cache / "infiniband" / "unpacked.json"
    text = stamp.read_text()
    assert problem(unpacked) == ""
    try:
        stamp.write_text(json.dumps({**json.loads(text), "scheme": 1}))
        assert problem(unpacked) == "unpacked by other rules"
        stamp.unlink()
        assert problem(unpacked) == "not unpacked to the end"
    finally:
        stamp.write_text(text)


def test_who_waited_for_the_same_packages_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two first runs at once: the second finds nothing, waits for the cache, and finds all when it has it.
    packages = Packages(("it",), tmp_path / "cache" / "it" / "root", "it", "do this")
    monkeypatch.setattr(unpacking, "_unpack", lambda _fetching: pytest.fail("unpacked once more"))
    answers = iter(["not unpacked to the end", "", ""])
    ensure_unpacked(packages, lambda: next(answers), Progress(print))
    assert list(answers) == [""]


def test_a_machine_without_lists_of_packages_gets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("no apt here")
    settings = tmp_path / "apt.conf"
    settings.write_text(f'Dir::State::lists "{tmp_path}/none";\n')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    packages = Packages(("libumad2sim0",), tmp_path / "cache" / "sim" / "root", "it", "")
    ensure_unpacked(packages, lambda: packages.problem([], {}), Progress(print))
    assert list(packages.root.glob("usr/lib/*/umad2sim/libumad2sim.so"))
    assert packages.problem([], {}) == ""


def test_what_cannot_be_had_is_said_with_the_words_of_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("no apt here")
    settings = tmp_path / "apt.conf"
    (tmp_path / "parts").mkdir()
    settings.write_text(f'Dir::Etc::sourcelist "{tmp_path}/none";\nDir::Etc::sourceparts "{tmp_path}/parts";\n')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    packages = Packages(("libumad2sim0",), tmp_path / "cache" / "sim" / "root", "it", "do this")
    with pytest.raises(UnavailableError, match="Unable to locate package libumad2sim0") as caught:
        ensure_unpacked(packages, lambda: packages.problem([], {}), Progress(print))
    assert caught.value.hint == "do this"
    assert packages.problem([], {}) == "not unpacked to the end"
