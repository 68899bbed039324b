# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of a declaration: drop-ins of ours beside unmanaged files, and the arguments for grubby on EL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...outcome.errors import BringupError, InputError
from .declaration import Declaration
from .state import load_package_names
from .transaction import Chosen

# The files of a declaration: drop-ins of ours beside unmanaged files.

MARK = "Written by gpufleet.bringup from gpufleet_converge; what is changed here is put back."
LEDGER = "/etc/gpufleet/converged.json"
# What has to be done after a file was written.
Effect = Literal["", "sysctl", "initramfs", "grub", "units", "chrony"]
_UNITS = "/etc/systemd/system"
# It has to take precedence over files of packages and others: the last name counts.
_SYSCTL = "/etc/sysctl.d/99-zz-gpufleet.conf"
_GPU_POWER = "gpufleet-gpu-power.service"
_EFFECTS: tuple[tuple[str, Effect], ...] = (
    ("/etc/sysctl.d/", "sysctl"),
    ("/etc/modprobe.d/", "initramfs"),
    ("/etc/default/grub.d/", "grub"),
    (f"{_UNITS}/", "units"),
    ("/etc/chrony", "chrony"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One file, its content, and what makes it take effect; `needs_boot` says what takes effect only with a reboot."""

    path: str
    content: str
    effect: Effect = ""
    needs_boot: str = ""
    mode: str = "0644"

    @property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit that has to run; `ours` marks units that a file of ours defines."""

    name: str
    ours: bool = False


def written_files(declared: Declaration, family: str, on_hold: Sequence[Chosen], imex: bool) -> tuple[WrittenFile, ...]:
    """Return the files of all declared parts, each path once."""
    makers = (
        _settings(declared),
        _modules(declared),
        _services(declared),
        _nvidia(declared, imex),
        _time(declared, family),
        _pins(declared, family, on_hold),
    )
    return tuple(file for files in makers for file in files)


def kernel_arguments(declared: Declaration) -> tuple[str, ...]:
    """Return the arguments of the kernel command line, including those of huge pages."""
    pages = declared.hugepages
    large = ("hugepagesz=1G", f"hugepages={pages.size_1g}") if pages and pages.size_1g else ()
    return (*declared.kernel_arguments, *large)


def sysctl_settings(declared: Declaration) -> dict[str, str]:
    """Return the sysctl settings, including those of huge pages."""
    pages = declared.hugepages
    return {**declared.sysctl, **({"vm.nr_hugepages": str(pages.size_2m)} if pages and pages.size_2m else {})}


def grub_file(arguments: Sequence[str]) -> WrittenFile | None:
    """Return the GRUB drop-in that Debian and Ubuntu read; EL keeps arguments in its boot entries (grubby)."""
    if not arguments:
        return None
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments)}"'
    return WrittenFile(path="/etc/default/grub.d/99-zz-gpufleet.cfg", content=_text(line), effect="grub")


def effect_of(path: str) -> Effect:
    """Return what makes the removal of a file take effect."""
    for start, effect in _EFFECTS:
        if path.startswith(start):
            return effect
    return ""


def our_units(declared: Declaration) -> tuple[Unit, ...]:
    """Return the units that files of ours define."""
    names = [_GPU_POWER] if declared.power_limit_w is not None else []
    if declared.time_source and declared.time_source.kind == "ptp":
        names += ["gpufleet-ptp4l.service", "gpufleet-phc2sys.service"]
    return tuple(Unit(name=name, ours=True) for name in names)


def _text(*lines: str, comment: str = "#") -> str:
    return "\n".join((f"{comment} {MARK}", *lines, ""))


def _settings(declared: Declaration) -> Iterator[WrittenFile]:
    sysctl = sysctl_settings(declared)
    if sysctl:
        yield WrittenFile(
            path=_SYSCTL, content=_text(*(f"{key} = {value}" for key, value in sorted(sysctl.items()))), effect="sysctl"
        )
    if declared.limits:
        lines = (f"{limit.domain} {limit.type} {limit.item} {limit.value}" for limit in declared.limits)
        yield WrittenFile(path="/etc/security/limits.d/99-zz-gpufleet.conf", content=_text(*lines))
    # limits.conf does not reach services.
    for unit, limits in sorted(declared.service_limits.items()):
        lines = (f"{key}={value}" for key, value in sorted(limits.items()))
        path = f"{_UNITS}/{unit}.service.d/99-zz-gpufleet.conf"
        yield WrittenFile(path=path, content=_text("[Service]", *lines), effect="units")


def _modules(declared: Declaration) -> Iterator[WrittenFile]:
    if declared.driver:
        # Without the rebuilt initramfs nouveau is bound before this file is read.
        yield WrittenFile(
            path="/etc/modprobe.d/gpufleet-nouveau.conf",
            content=_text("blacklist nouveau", "options nouveau modeset=0"),
            effect="initramfs",
        )
    if declared.module_options:
        lines = (
            f"options {module} {' '.join(f'{key}={value}' for key, value in sorted(options.items()))}"
            for module, options in sorted(declared.module_options.items())
        )
        yield WrittenFile(
            path="/etc/modprobe.d/gpufleet-options.conf",
            content=_text(*lines),
            effect="initramfs",
            needs_boot="options of kernel modules",
        )
    if declared.gpu_direct == "peermem":
        yield WrittenFile(path="/etc/modules-load.d/gpufleet-gpu-direct.conf", content=_text("nvidia_peermem"))


def _services(declared: Declaration) -> Iterator[WrittenFile]:
    if declared.persistence is not None:
        # The units of distributions may start the daemon without persistence mode.
        word = "--persistence-mode" if declared.persistence else "--no-persistence-mode"
        start = f"ExecStart=/usr/bin/nvidia-persistenced --verbose {word}"
        path = f"{_UNITS}/nvidia-persistenced.service.d/99-zz-gpufleet.conf"
        yield WrittenFile(path=path, content=_text("[Service]", "ExecStart=", start), effect="units")
    if declared.power_limit_w is not None:
        # A limit is lost with a reload of the driver and with a reboot: the unit sets it again.
        yield WrittenFile(
            path=f"{_UNITS}/{_GPU_POWER}",
            content=_text(
                "[Unit]",
                "Description=Power limit of the GPUs",
                "After=nvidia-persistenced.service",
                "Wants=nvidia-persistenced.service",
                "[Service]",
                "Type=oneshot",
                "RemainAfterExit=yes",
                f"ExecStart=/usr/bin/nvidia-smi --power-limit={declared.power_limit_w}",
                "[Install]",
                "WantedBy=multi-user.target",
            ),
            effect="units",
        )


def _nvidia(declared: Declaration, imex: bool) -> Iterator[WrittenFile]:
    if declared.nvlink and imex and declared.nvlink.imex_nodes:
        # No comment: the format is one address a line, the same list on every tray.
        nodes = "\n".join((*declared.nvlink.imex_nodes, ""))
        yield WrittenFile(path="/etc/nvidia-imex/nodes_config.cfg", content=nodes, effect="units")
    if declared.mig:
        # The unit makes its own file from the hardware on every boot, so the site's has another name.
        yield WrittenFile(path="/etc/gpufleet/mig.yaml", content=_text(declared.mig.text.rstrip("\n")))
        lines = (
            'Environment="MIG_PARTED_CONFIG_FILE=/etc/gpufleet/mig.yaml"',
            f'Environment="MIG_PARTED_SELECTED_CONFIG={declared.mig.config}"',
        )
        path = f"{_UNITS}/nvidia-mig-manager.service.d/zz-gpufleet.conf"
        yield WrittenFile(path=path, content=_text("[Service]", *lines), effect="units")


def _time(declared: Declaration, family: str) -> Iterator[WrittenFile]:
    source = declared.time_source
    if source and source.kind == "chrony":
        # Debian's chrony.conf reads conf.d; on EL it is configured to read this directory.
        directory = "/etc/chrony/conf.d" if family == "debian" else "/etc/chrony.d"
        lines = (f"server {server} iburst" for server in source.servers)
        yield WrittenFile(path=f"{directory}/gpufleet.conf", content=_text(*lines), effect="chrony")
    if source and source.kind == "ptp":
        start = f"/usr/sbin/ptp4l -s -m -i {source.interface}"
        yield _ptp_unit("ptp4l", "PTP clock of the network interface", start, "network.target")
        yield _ptp_unit(
            "phc2sys", "System clock from the PTP clock", "/usr/sbin/phc2sys -a -r -m", "gpufleet-ptp4l.service"
        )


def _ptp_unit(name: str, description: str, start: str, after: str) -> WrittenFile:
    lines = ("[Unit]", f"Description={description}", f"After={after}", "[Service]", f"ExecStart={start}")
    content = _text(*lines, "Restart=on-failure", "[Install]", "WantedBy=multi-user.target")
    return WrittenFile(path=f"{_UNITS}/gpufleet-{name}.service", content=content, effect="units")


def _pins(declared: Declaration, family: str, on_hold: Sequence[Chosen]) -> Iterator[WrittenFile]:
    if family != "debian" or not on_hold:
        return
    yield WrittenFile(path="/etc/apt/preferences.d/gpufleet", content=_text(*pins(on_hold)))
    # Only these names: unattended upgrades of everything else go on.
    names = (f'        "^{prefix}";' for prefix in load_package_names().unattended)
    block = ("Unattended-Upgrade::Package-Blacklist {", *names, "};")
    yield WrittenFile(path="/etc/apt/apt.conf.d/99gpufleet", content=_text(*block, comment="//"))


def pins(on_hold: Sequence[Chosen]) -> tuple[str, ...]:
    """Return apt preferences: exactly that version, even where it is older than the installed one."""
    lines: list[str] = []
    for package in on_hold:
        lines += ["", f"Package: {package.name}", f"Pin: version {package.version}", "Pin-Priority: 1001"]
    return tuple(lines)


def version_locks(on_hold: Sequence[Chosen]) -> tuple[str, ...]:
    """Return lines of dnf's versionlock list: name-epoch:version-release, any architecture."""
    return tuple(f"{package.name}-{package.version}.*" for package in on_hold)


# The arguments for grubby on EL, where kernel arguments are in boot entries and in no drop-in. `grubby --args` replaces
# every argument of the same name (rhboot/grubby grubby-bls, update_args), so all arguments of a name that can occur
# more than once have to be passed together.

# Names that can occur more than once, grouped by what belongs together; each page size is followed by its number of
# pages (Linux, Documentation/admin-guide/kernel-parameters.txt).
_REPEATED = (("console",), ("earlycon",), ("hugepagesz", "hugepages"))


def missing_arguments(wanted: Sequence[str], entry: str) -> tuple[str, ...]:
    """Return the arguments that the default boot entry lacks."""
    there = entry.split()
    return tuple(argument for argument in wanted if argument not in there)


def arguments_for_grubby(wanted: Sequence[str], entry: str) -> tuple[str, ...]:
    """Return the arguments to add with grubby: the missing ones, and those of the same name that it would drop.

    Empty where nothing is missing, or where grubby shows no entry.
    """
    lacking = missing_arguments(wanted, entry) if entry else ()
    names = {_name(argument) for argument in lacking}
    together = {name for group in _REPEATED for name in group if names & set(group)}
    configured = [argument for argument in wanted if _name(argument) in names | together]
    others = [argument for argument in entry.split() if _name(argument) in together and argument not in configured]
    return (*others, *configured)


def argument_problems(wanted: Sequence[str], entry: str, running: str) -> Iterator[BringupError]:
    """Yield a problem that cannot be fixed on the host: it has no boot entry, and was booted without the declared
    arguments."""
    lacking = missing_arguments(wanted, running)
    if lacking and not entry:
        reason = f"{' '.join(lacking)} cannot be added: `grubby --info=DEFAULT` shows no boot entry of the host."
        fix = "state it where the host is started from (network, image), or install grubby"
        yield InputError("kernel_arguments", reason, fix)


def _name(argument: str) -> str:
    return argument.partition("=")[0]
