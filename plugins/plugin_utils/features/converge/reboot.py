# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What takes effect only with a reboot, and whether the modules of the driver can be reloaded without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .declaration import Declaration
from .state import DeviceUser, HostState, KernelModule
from .written_files import WrittenFile, kernel_arguments

# Modules that use `nvidia` are unloaded before it.
UNLOAD_ORDER = (
    "nvidia_drm",
    "nvidia_modeset",
    "nvidia_uvm",
    "nvidia_peermem",
    "nvidia_fs",
    "nvidia_vgpu_vfio",
    "gdrdrv",
    "nvidia",
)
# How many processes are named; more are only counted.
_NAMED = 8
# Units that hold the driver and are stopped before, clients of other units first: monitoring of the GPUs
# (NVIDIA/mig-parted deployments/systemd/hooks.sh), then what runs the driver (`_unload_driver` of
# NVIDIA/gpu-driver-container). They are started again in reverse order. kubelet holds no device and goes on: a pod that
# holds one is named. nvlsm is no unit: the fabric manager's brings and ends it.
HOLDING_UNITS = (
    "dcgm-exporter",
    "nvsm",
    "nvidia-dcgm",
    "dcgm",
    "nvidia-imex",
    "nvidia-fabricmanager",
    "nvidia-topologyd",
    "nvidia-gridd",
    "nvidia-persistenced",
)
# Units that act once on the loaded driver, which is lost with it: they run again if they ran before.
ONCE_UNITS = ("gpufleet-gpu-power", "nvidia-mig-manager")


def reboot_reasons(declared: Declaration, state: HostState, until_boot: Mapping[str, str]) -> tuple[str, ...]:
    """Return why the host has to be rebooted once everything is written; empty if it need not."""
    reasons = [what for what, boot in until_boot.items() if boot == state.boot]
    missing = missing_arguments(declared, state)
    if missing:
        reasons.append(f"kernel command line without {' '.join(missing)}")
    if declared.driver and "nouveau" in state.modules:
        reasons.append("nouveau is loaded")
    if declared.driver and state.loaded_driver and state.loaded_driver != declared.driver.version:
        reasons.append(f"driver {state.loaded_driver} is loaded, {declared.driver.version} is declared")
    elif other_modules(declared, state):
        wanted = declared.driver.modules if declared.driver else ""
        reasons.append(
            f"the {state.loaded_modules} modules of driver {state.loaded_driver} are loaded, {wanted} declared"
        )
    return tuple(reasons)


def other_modules(declared: Declaration, state: HostState) -> bool:
    """Return whether the loaded modules are of another kind than declared, open or proprietary."""
    loaded = state.loaded_modules
    return bool(declared.driver and state.loaded_driver and loaded) and loaded != (
        declared.driver.modules if declared.driver else ""
    )


def missing_arguments(declared: Declaration, state: HostState) -> tuple[str, ...]:
    """Return the arguments that the running kernel was not booted with."""
    running = state.command_line.split()
    return tuple(argument for argument in kernel_arguments(declared) if argument not in running)


def until_boot(state: HostState, files: Sequence[WrittenFile], ofed_changes: bool) -> dict[str, str]:
    """Return what was changed since the last boot and waits for a reboot, with that boot."""
    waiting = {what: boot for what, boot in state.ours.until_boot.items() if boot == state.boot}
    for file in files:
        if file.needs_boot and state.digests.get(file.path, "") != file.digest:
            waiting[file.needs_boot] = state.boot
    if any(path.startswith("/etc/sysctl.d/") and path not in {f.path for f in files} for path in state.ours.files):
        # The earlier values of the kernel are unknown.
        waiting["settings of sysctl were taken back"] = state.boot
    if ofed_changes:
        # Its modules drop every link when they are reloaded; storage and RDMA users hold them.
        waiting["DOCA-OFED was installed or changed"] = state.boot
    return waiting


def holders(
    modules: Mapping[str, KernelModule], users: Sequence[DeviceUser] = (), stopped: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return what keeps the modules of the driver loaded, apart from each other; empty if they can be unloaded.

    A module may be used by modules of the list that are unloaded before it, and by nothing else: neither a process nor
    another module. `users` are the processes that have devices open. Processes of units that are about to be `stopped`
    do not count. Neither do uses without a known process while such units run: they are counted again once the units
    stopped.
    """
    found, opened = [], False
    strangers = [user for user in users if user.unit.removesuffix(".service") not in stopped]
    for name in (name for name in UNLOAD_ORDER if name in modules):
        module = modules[name]
        foreign = [user for user in module.users if user not in UNLOAD_ORDER]
        rest = module.uses - len(module.users)
        if foreign:
            found.append(f"{name} is used by module {', '.join(foreign)}")
        if rest > 0 and (strangers or not stopped):
            found.append(f"{name} is open {rest} times")
            opened = True
    if opened and strangers:
        named = [f"{user.process} of {user.unit}" for user in strangers]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        found.append(f"devices of the driver are open in {', '.join(named[:_NAMED])}{more}")
    return tuple(found)


def unloadable(modules: Mapping[str, KernelModule]) -> tuple[str, ...]:
    """Return the loaded modules in the order in which they are unloaded."""
    return tuple(name for name in UNLOAD_ORDER if name in modules)


def is_built(lines: Sequence[str], version: str, kernel: str) -> bool:
    """Return whether DKMS reports it as installed for that kernel.

    A line such as `nvidia/580.95.05, 6.8.0-60-generic, x86_64: installed`; older ones have `nvidia, 580...`.
    """
    wanted = (f"nvidia/{version}, {kernel},", f"nvidia, {version}, {kernel},")
    return any(line.startswith(wanted) and line.split(":")[-1].strip().startswith("installed") for line in lines)
