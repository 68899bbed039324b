# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The whole toolchain: each program is found on the machine, taken from the cache, or built."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.pool import map_bounded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from .golang import Go, LongCommand, ensure_go, run_long
from .store import (
    TOOLS,
    ModuleSource,
    ModuleStore,
    Tool,
    Version,
    build_digest,
    cache_lock,
    fits,
    linker_flags,
    parse_version,
    read_source,
    sweep,
    workplace,
)

DISK_NEEDED = 6 * 1024**3
MEMORY_NEEDED = 3 * 1024**3
_BUILD_LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Program:
    """A usable program: its path, its version, and its origin (`found`, `cache`, `built`)."""

    name: str
    path: Path
    version: str
    origin: str


@dataclass(frozen=True, slots=True)
class Workshop:
    """Sources of programs.

    Args:
        sources: directory of the pinned modules (`<module>/go.mod`).
        cache: directory of built programs.
        environ: environment of the controller (PATH, KUBEBUILDER_ASSETS, GOPROXY, ...).
        alive: raises AbortedError once the controller is gone.
    """

    sources: Path
    cache: Path
    environ: Mapping[str, str]
    progress: Progress
    alive: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Plan:
    tool: Tool
    source: ModuleSource
    version: str
    store: ModuleStore


def ensure_toolchain(workshop: Workshop, tools: tuple[Tool, ...] = TOOLS) -> dict[str, Program]:
    """Return every program. Those not on the machine in a suitable version, and not in the cache, are built.

    Raises:
        BringupError: a build failed; Go, disk or memory is missing.
    """
    plans = _plans(workshop, tools)
    found = _found_on_machine(plans, workshop.environ)
    rest = [plan for plan in plans if plan.tool.name not in found]
    if rest:
        with cache_lock(workshop.cache, workshop.progress, workshop.alive):
            found |= _from_cache_or_built(rest, workshop)
    return {tool.name: found[tool.name] for tool in tools}


def _plans(workshop: Workshop, tools: tuple[Tool, ...]) -> list[_Plan]:
    sources = {tool.module: read_source(workshop.sources, tool.module) for tool in tools}
    plans = []
    for module, source in sources.items():
        members = [tool for tool in tools if tool.module == module]
        flags = {tool.name: linker_flags(tool, source.version_of(tool.pin)) for tool in members}
        machine = f"{platform.system()}/{platform.machine()}"
        store = ModuleStore(workshop.cache / f"{module}-{build_digest(source, flags, machine)}")
        plans += [_Plan(tool, source, source.version_of(tool.pin), store) for tool in members]
    return plans


def _found_on_machine(plans: list[_Plan], environ: Mapping[str, str]) -> dict[str, Program]:
    """Return programs of KUBEBUILDER_ASSETS or PATH with a suitable version.

    Programs of one release count only all together.
    """
    found: dict[str, Program] = {}
    for pin in dict.fromkeys(plan.tool.pin for plan in plans):
        members = [plan for plan in plans if plan.tool.pin == pin]
        programs = [program for plan in members if (program := _on_machine(plan, environ)) is not None]
        if len(programs) == len(members) and len({program.version for program in programs}) == 1:
            found |= {program.name: program for program in programs}
    return found


def _on_machine(plan: _Plan, environ: Mapping[str, str]) -> Program | None:
    pinned = parse_version(plan.version)
    for directories in (environ.get("KUBEBUILDER_ASSETS", ""), environ.get("PATH", "")):
        path = shutil.which(plan.tool.name, path=directories) if directories else None
        version = _version_of(path, plan.tool) if path else None
        if path and version and pinned and fits(plan.tool, version, pinned):
            return Program(plan.tool.name, Path(path), "v" + ".".join(map(str, version)), "found")
    return None


def _version_of(path: str, tool: Tool) -> Version | None:
    try:
        result = run_command([path, *tool.version_argv], 20)
    except (NotFoundError, OSError):
        return None
    return parse_version(result.stdout) if result.rc == 0 else None


def _from_cache_or_built(plans: list[_Plan], workshop: Workshop) -> dict[str, Program]:
    problems = map_bounded(lambda plan: plan.store.problem(plan.tool.name), plans, 4)
    stored = [plan for plan, problem in zip(plans, problems, strict=True) if not problem]
    programs = {plan.tool.name: _program(plan, "cache") for plan in stored}
    missing = [plan for plan, problem in zip(plans, problems, strict=True) if problem]
    for plan, problem in zip(plans, problems, strict=True):
        if problem == "checksum":
            path = plan.store.path_of(plan.tool.name)
            workshop.progress.say(f"toolchain: {path} does not match its checksum, building it again")
    if missing:
        sweep(workshop.cache)
        _check_room(workshop.cache)
        go = ensure_go(workshop.cache, workshop.environ, workshop.progress, workshop.alive)
        for number, plan in enumerate(missing, 1):
            _build(plan, go, workshop, f"{number} of {len(missing)}")
            programs[plan.tool.name] = _program(plan, "built")
    return programs


def _program(plan: _Plan, origin: str) -> Program:
    return Program(plan.tool.name, plan.store.path_of(plan.tool.name), plan.version, origin)


def _build(plan: _Plan, go: Go, workshop: Workshop, count: str) -> None:
    """Build one program in a copy of its module, since the collection may be in a read-only place."""
    plan.store.directory.mkdir(parents=True, exist_ok=True)
    with workplace(workshop.cache) as work:
        (work / "go.mod").write_text(plan.source.go_mod)
        (work / "go.sum").write_text(plan.source.go_sum)
        target = work / plan.tool.name
        flags = linker_flags(plan.tool, plan.version)
        # Without debug information (-w): creating it takes a tenth of a build's CPU time.
        options = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", flags, "-o", str(target))
        argv = [str(go.program), "build", *options, plan.tool.package]
        saying = f"toolchain: building {plan.tool.name} {plan.version} ({count})"
        (work / "tmp").mkdir()
        environment = {**go.environment(workshop.environ), "GOTMPDIR": str(work / "tmp")}
        run_long(LongCommand(argv, work, environment, saying, _BUILD_LIMIT_S), workshop.progress, workshop.alive)
        os.replace(target, plan.store.path_of(plan.tool.name))
    plan.store.record(plan.tool.name, go.version)


def _check_room(cache: Path) -> None:
    """Raise UnavailableError unless disk and memory suffice for a build."""
    disk = shutil.disk_usage(cache).free
    if disk < DISK_NEEDED:
        hint = "make room, or set gpufleet_rehearsal_cache (and GOCACHE, GOMODCACHE) to a larger disk"
        raise UnavailableError(f"disk of {cache}", f"{_gib(disk)} free, the build needs {_gib(DISK_NEEDED)}.", hint)
    memory = available_memory()
    if memory < MEMORY_NEEDED:
        hint = "free memory, or copy a filled toolchain cache from another machine"
        raise UnavailableError("memory", f"{_gib(memory)} available, the build needs {_gib(MEMORY_NEEDED)}.", hint)


def available_memory() -> int:
    """Return the memory available to new programs, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _gib(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB"
