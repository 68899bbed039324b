# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of one host: everything to write, install, hold, start and remove, known before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache

from ...hardware.sku import Sku
from ...outcome.errors import BringupError, InputError, ProblemsError
from ...runtime.files import RECIPES
from ...runtime.strict import decode_file
from .declaration import VARIABLE, Declaration
from .reboot import HOLDING_UNITS, ONCE_UNITS, holders, is_built, other_modules, reboot_reasons, unloadable, until_boot
from .state import HostState, Ledger, Part, load_package_names, not_in_force, nvlink_parts, services_of
from .transaction import Chosen, PackageTransaction, held, package_names, pinned, transactions, wanted_sets
from .written_files import (
    Unit,
    WrittenFile,
    argument_problems,
    arguments_for_grubby,
    effect_of,
    grub_file,
    kernel_arguments,
    missing_arguments,
    our_units,
    pins,
    sysctl_settings,
    version_locks,
    written_files,
)

# One owner for each part of a host. A part that is declared and has another owner is an error that names both.


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerMark:
    """A mark of another owner of a part; the fields are described in recipes/host_owners.yaml."""

    owner: str
    part: str
    leave: str
    source: str
    path: str = ""
    label: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owners:
    owners: tuple[OwnerMark, ...]


@cache
def load_owner_marks() -> tuple[OwnerMark, ...]:
    """Return the marks of all other owners.

    Raises:
        BringupError: the file does not have the expected form.
    """
    return decode_file(_Owners, RECIPES / "host_owners.yaml").owners


def mark_paths() -> tuple[str, ...]:
    """Return the paths to look for on the host, with `*` for any name."""
    return tuple(dict.fromkeys(mark.path for mark in load_owner_marks() if mark.path))


# What an operator that owns the driver installs with it.
_WITH_THE_DRIVER = ("driver", "nvlink", "container_toolkit")


def owner_problems(
    declared: Declaration, state: HostState, labels: Mapping[str, str], driver_owner: str
) -> list[BringupError]:
    """Return one problem for each declared part that has another owner."""
    return [*_site(declared, driver_owner), *_marks(declared, state, labels), *_settings(declared, state)]


def _site(declared: Declaration, driver_owner: str) -> Iterator[BringupError]:
    if driver_owner != "operator":
        return
    for part in (part for part in _WITH_THE_DRIVER if part in declared.parts):
        yield _conflict(part, "the GPU operator", "gpufleet_driver_owner is operator", "declare one of the two")


def _marks(declared: Declaration, state: HostState, labels: Mapping[str, str]) -> Iterator[BringupError]:
    for mark in load_owner_marks():
        if mark.part not in declared.parts:
            continue
        observed = [path for path in state.marks if mark.path and fnmatch(path, mark.path)]
        value = labels.get(mark.label) if mark.label else None
        if value is not None and (not mark.values or value in mark.values):
            observed.append(f"node label {mark.label}={value}")
        if observed:
            yield _conflict(mark.part, mark.owner, ", ".join(observed), mark.leave)


def _settings(declared: Declaration, state: HostState) -> Iterator[BringupError]:
    for key, value, path in (row for row in state.set_elsewhere if len(row) == 3):
        if key in declared.sysctl and " ".join(value.split()) != " ".join(declared.sysctl[key].split()):
            found = f"{path} sets {key} = {value} and is read after our file"
            yield _conflict("sysctl", f"the owner of {path}", found, f"take {key} out of one of the two")


def _conflict(part: str, owner: str, observed: str, leave: str) -> BringupError:
    return InputError(part, f"has two owners: {VARIABLE} declares it, and {owner} has it ({observed}).", leave)


# The first kernel with DMA-BUF for peers (Linux 5.12, RDMA: Add dma-buf support).
_DMA_BUF_KERNEL = (5, 12)
# A running unit, or one that acts once and has done so.
_RUNS = ("active", "done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What has to be read from the host before it can be planned."""

    packages: tuple[str, ...]
    paths: tuple[str, ...]
    marks: tuple[str, ...]
    sysctl: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """Whether the driver's modules are reloaded, in which order they are unloaded, and what keeps them loaded.

    `stop` are running units that are stopped before, in that order; `once` are units that have to run again afterwards.
    """

    wanted: bool = False
    unload: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """The changes to one host; `changes` has them in words, empty where the host is as declared.

    `files` are all files of the declaration, `write_files` those that differ. `hold` are all packages to hold,
    `hold_now` those that are not held yet. `unfinished` are packages to finish before any are changed. `effects` make
    changed files take effect, `settings` are sysctl settings that are not in force. `restart` are units that still run
    the old version of a package that changes. `reboot` says why the host has to be rebooted afterwards. `build_modules`
    is the version of an installed driver that DKMS has not built for the running kernel. `needs_headers` is the version
    of a driver to build on a host without the headers of its kernel.
    """

    parts: tuple[str, ...]
    unfinished: tuple[str, ...] = ()
    transactions: tuple[PackageTransaction, ...] = ()
    hold: tuple[Chosen, ...] = ()
    hold_now: tuple[str, ...] = ()
    unhold: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    preferences: str = ""
    files: tuple[WrittenFile, ...] = ()
    write_files: tuple[WrittenFile, ...] = ()
    remove_files: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()
    settings: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    remove_units: tuple[str, ...] = ()
    add_arguments: tuple[str, ...] = ()
    remove_arguments: tuple[str, ...] = ()
    rebuild_modules: bool = False
    build_modules: str = ""
    needs_headers: str = ""
    reload: Reload = field(default_factory=Reload)
    reboot: tuple[str, ...] = ()
    may_reboot: bool = False
    changes: tuple[str, ...] = ()
    ledger_during: Ledger = field(default_factory=Ledger)
    ledger_after: Ledger = field(default_factory=Ledger)


def question(declared: Declaration, state: HostState, sku: Sku | None) -> Question:
    """Return what module `node_state_info` has to look for; of `state` only the operating system counts.

    Raises:
        InputError: no package names are known for a declared part on that operating system.
    """
    by_sku = services_of(sku)
    names = package_names(declared, state, by_sku)
    files = _files(declared, state, _imex(declared, by_sku, state), ())
    paths = [file.path for file in files]
    sysctl = tuple(sysctl_settings(declared))
    return Question(
        packages=names,
        paths=tuple(paths),
        marks=mark_paths(),
        sysctl=sysctl,
        units=tuple(dict.fromkeys((*(unit.name for unit in _units(declared, state, by_sku)), *_holding(declared)))),
    )


def plan_host(
    declared: Declaration,
    state: HostState,
    *,
    sku: Sku | None = None,
    labels: Mapping[str, str] | None = None,
    driver_owner: str = "host",
) -> HostPlan:
    """Return the plan of that host.

    Args:
        declared: what the site declares for it.
        state: the state of the host, read with `question`.
        sku: its SKU; needed where `nvlink.services` is `by-sku`.
        labels: labels of its Kubernetes node, for the parts that operators own.
        driver_owner: `gpufleet_driver_owner` of the site.

    Raises:
        ProblemsError: a part has two owners, a set of packages is not whole in the repositories, or the declaration
            does not fit the host. The host is then not changed.
    """
    by_sku = services_of(sku)
    problems = [*owner_problems(declared, state, labels or {}, driver_owner), *_misfits(declared, state, sku)]
    moves: tuple[PackageTransaction, ...] = ()
    try:
        moves, missing = transactions(declared, state, by_sku)
        problems += missing
    except InputError as error:
        problems.append(error)
    if problems:
        raise ProblemsError("declaration", tuple(problems))
    return _plan(declared, state, by_sku, moves)


def _plan(
    declared: Declaration, state: HostState, by_sku: Sequence[Part], moves: tuple[PackageTransaction, ...]
) -> HostPlan:
    hold, only, ours = held(moves), pinned(moves), state.ours
    files = _files(declared, state, _imex(declared, by_sku, state), only)
    units = _units(declared, state, by_sku)
    remove_files = tuple(path for path in ours.files if path not in {file.path for file in files})
    changed = tuple(file for file in files if state.digests.get(file.path, "") != file.digest)
    drifted = () if any(file.effect == "sysctl" for file in changed) else _drifted(declared, state)
    effects = [
        "sysctl" if drifted else "",
        *(file.effect for file in changed),
        *(effect_of(path) for path in remove_files),
        *ours.pending,
    ]
    waiting = until_boot(state, files, _moves("DOCA-OFED", moves, state))
    arguments = kernel_arguments(declared)
    after = Ledger(
        files=tuple(sorted(file.path for file in files)),
        holds=tuple(sorted(package.name for package in hold)),
        kernel_arguments=arguments if state.family == "redhat" else (),
        units=tuple(unit.name for unit in units if unit.ours),
        until_boot=waiting,
    )
    plan = HostPlan(
        parts=declared.parts,
        unfinished=state.unfinished if moves else (),
        transactions=moves,
        hold=hold,
        hold_now=tuple(p.name for p in hold if not _is_held(p.name, state)),
        unhold=tuple(name for name in ours.holds if name not in after.holds),
        locks=version_locks(only) if state.family == "redhat" else (),
        preferences=_preferences(only, state),
        files=files,
        write_files=changed,
        remove_files=remove_files,
        effects=tuple(dict.fromkeys(effect for effect in effects if effect)),
        settings=drifted,
        units=units,
        restart=_restart(declared, state, by_sku, moves),
        remove_units=tuple(name for name in ours.units if name not in after.units),
        add_arguments=_add_arguments(arguments, state),
        remove_arguments=_remove_arguments(arguments, state),
        rebuild_modules=_rebuild(declared, moves, state),
        build_modules="" if _moves("driver", moves, state) else _unbuilt(declared, state),
        needs_headers="" if state.kernel_headers else _unbuilt(declared, state),
        reload=_reload(declared, state, moves),
        reboot=reboot_reasons(declared, state, waiting),
        may_reboot=declared.reboot == "when-needed",
        ledger_during=_union(ours, after, effects),
        ledger_after=after,
    )
    return replace(plan, changes=_changes(plan, state))


def _files(declared: Declaration, state: HostState, imex: bool, hold: Sequence[Chosen]) -> tuple[WrittenFile, ...]:
    # The paths do not depend on versions, so they can be requested before the versions are known.
    held_or_any = hold or (
        (Chosen(name="any"),) if declared.driver or declared.dcgm or declared.container_toolkit else ()
    )
    files = written_files(declared, state.family, held_or_any, imex)
    grub = grub_file(kernel_arguments(declared)) if state.family == "debian" else None
    return (*files, grub) if grub else files


def _imex(declared: Declaration, by_sku: Sequence[Part], state: HostState) -> bool:
    return "imex" in nvlink_parts(declared, by_sku, state.architecture)


def _units(declared: Declaration, state: HostState, by_sku: Sequence[Part]) -> tuple[Unit, ...]:
    names = [unit for _title, sets in wanted_sets(declared, state, by_sku) for one in sets for unit in one.units]
    # openibd is started by its package and by the reboot. Starting it here would drop links of a host in service.
    found = [Unit(name=f"{name}.service") for name in dict.fromkeys(names) if name != "openibd"]
    if declared.persistence is not None and "nvidia-persistenced" not in names:
        found.append(Unit(name="nvidia-persistenced.service"))
    if declared.mig:
        found.append(Unit(name="nvidia-mig-manager.service"))
    return (*found, *our_units(declared))


def _misfits(declared: Declaration, state: HostState, sku: Sku | None) -> Iterator[BringupError]:
    driver = declared.driver
    if declared.nvlink and declared.nvlink.services == "by-sku" and sku is None:
        yield InputError("nvlink.services", "is by-sku, and the SKU of the host is not known.", "state gpufleet_sku")
    if declared.nvlink and "imex" in nvlink_parts(declared, services_of(sku), "") and not declared.nvlink.imex_nodes:
        yield InputError("nvlink.imex_nodes", "is empty, and the SKU needs IMEX.", "state the addresses of all trays")
    only_open = sku is not None and sku.accelerator in load_package_names().open_modules_only
    if driver and driver.modules == "proprietary" and only_open:
        yield InputError(
            "driver.modules", f"is proprietary; {sku.accelerator if sku else ''} needs open.", "state open"
        )
    for name, versions in state.duplicates.items():
        reason = f"is installed as {' and '.join(versions)}: a transaction was ended in the middle."
        yield InputError(f"package {name}", reason, "`dnf remove --duplicates`, then converge the host again")
    if state.family == "redhat":
        yield from argument_problems(kernel_arguments(declared), state.boot_arguments, state.command_line)
    if declared.gpu_direct == "dma-buf" and _kernel(state.kernel) < _DMA_BUF_KERNEL:
        yield InputError("gpu_direct", f"is dma-buf; kernel {state.kernel} has none (5.12).", "state peermem")


def _kernel(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split("-")[0].split(".")[:2] if word.isdigit())


def _add_arguments(arguments: Sequence[str], state: HostState) -> tuple[str, ...]:
    return arguments_for_grubby(arguments, state.boot_arguments) if state.family == "redhat" else ()


def _remove_arguments(arguments: Sequence[str], state: HostState) -> tuple[str, ...]:
    there = state.boot_arguments.split()
    return tuple(a for a in state.ours.kernel_arguments if a not in arguments and a in there)


def _union(ours: Ledger, after: Ledger, effects: Sequence[str]) -> Ledger:
    """Return the ledger for the time of the run: old and new entries, so that an interrupted run loses none."""
    return Ledger(
        files=tuple(sorted({*ours.files, *after.files})),
        holds=tuple(sorted({*ours.holds, *after.holds})),
        kernel_arguments=tuple(dict.fromkeys((*ours.kernel_arguments, *after.kernel_arguments))),
        units=tuple(dict.fromkeys((*ours.units, *after.units))),
        until_boot=after.until_boot,
        pending=tuple(dict.fromkeys(effect for effect in effects if effect)),
    )


def _preferences(only: Sequence[Chosen], state: HostState) -> str:
    """Return which versions count when the package manager simulates: preferences of apt, locks of dnf."""
    lines = pins(only) if state.family == "debian" else version_locks(only)
    return "\n".join((*lines, "")) if lines else ""


def _is_held(name: str, state: HostState) -> bool:
    return name in state.packages and state.packages[name].held


def _moving(one: PackageTransaction, state: HostState) -> list[Chosen]:
    installed = {name: package.installed for name, package in state.packages.items()}
    return [p for p in one.packages if not installed.get(p.name) or (p.version and installed[p.name] != p.version)]


def _moves(title: str, found: Sequence[PackageTransaction], state: HostState) -> bool:
    return any(_moving(one, state) for one in found if one.title == title)


def _restart(
    declared: Declaration, state: HostState, by_sku: Sequence[Part], moves: Sequence[PackageTransaction]
) -> tuple[str, ...]:
    """Return units that run or have failed while their packages change: they still run the old version."""
    moving = {package.name for one in moves for package in _moving(one, state)}
    sets = [one for _title, sets in wanted_sets(declared, state, by_sku) for one in sets]
    names = [f"{unit}.service" for one in sets for unit in one.units if moving & {*one.packages, *one.companions}]
    return tuple(name for name in dict.fromkeys(names) if state.units.get(name) in ("active", "failed"))


def _rebuild(declared: Declaration, found: Sequence[PackageTransaction], state: HostState) -> bool:
    """Whether a driver that stays is built again: nvidia-peermem is compiled against OFED, and OFED changed."""
    stays = declared.driver is not None and declared.driver.build == "dkms" and not _moves("driver", found, state)
    return stays and _moves("DOCA-OFED", found, state)


def _drifted(declared: Declaration, state: HostState) -> tuple[str, ...]:
    return tuple(not_in_force(sysctl_settings(declared), state.sysctl))


def _unbuilt(declared: Declaration, state: HostState) -> str:
    """Return the driver version that DKMS has still to build for the running kernel, empty if it is built."""
    driver = declared.driver
    if driver is None or driver.build != "dkms" or is_built(state.dkms, driver.version, state.kernel):
        return ""
    return driver.version


def _holding(declared: Declaration) -> tuple[str, ...]:
    """Return units that count when the driver is reloaded, whether or not they are declared."""
    reloads = declared.reload_driver and declared.driver is not None
    return tuple(f"{unit}.service" for unit in (*HOLDING_UNITS, *ONCE_UNITS)) if reloads else ()


def _reload(declared: Declaration, state: HostState, found: Sequence[PackageTransaction]) -> Reload:
    if not declared.reload_driver or not declared.driver or not state.loaded_driver:
        return Reload()
    other = state.loaded_driver != declared.driver.version or other_modules(declared, state)
    if not other and not _moves("driver", found, state):
        return Reload()

    def running(units: Sequence[str]) -> tuple[str, ...]:
        return tuple(unit for unit in units if state.units.get(f"{unit}.service") in _RUNS)

    stop = running(HOLDING_UNITS)
    busy = holders(state.modules, state.device_users, stop)
    return Reload(wanted=True, unload=unloadable(state.modules), stop=stop, once=running(ONCE_UNITS), holders=busy)


def _changes(plan: HostPlan, state: HostState) -> tuple[str, ...]:
    lines = [f"finish what dpkg was ended in: {name}" for name in plan.unfinished]
    for one in plan.transactions:
        for package in _moving(one, state):
            before = state.packages[package.name].installed or "not installed"
            lines.append(f"{one.title}: {package.name} {before} -> {package.version or 'as the repository has it'}")
    lines += [f"hold {name}" for name in plan.hold_now]
    lines += [f"no longer hold {name}" for name in plan.unhold]
    lines += [f"write {file.path}" for file in plan.write_files]
    lines += [f"remove {path}" for path in plan.remove_files]
    lines += [f"set again by sysctl: {setting}" for setting in plan.settings]
    if not plan.reboot:
        # A unit that waits for a reboot is enabled, and started by the reboot.
        lines += [f"start {unit.name}" for unit in plan.units if state.units.get(unit.name) not in _RUNS]
    lines += [f"stop {name}" for name in plan.remove_units]
    if plan.build_modules:
        missing = f"nvidia/{plan.build_modules} installed for the running kernel {state.kernel}"
        lines.append(f"build the modules of the driver: DKMS has no {missing}")
    lacking = missing_arguments(plan.add_arguments, state.boot_arguments)
    lines += [f"kernel command line: add {argument}" for argument in lacking]
    lines += [f"kernel command line: remove {argument}" for argument in plan.remove_arguments]
    return tuple(lines)
