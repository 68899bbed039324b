# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the script of role waves says of a host: its system, whether it waits for a reboot, and with which kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = (Path(__file__).resolve().parents[6] / "roles/waves/files/running_system.sh").read_text(encoding="utf-8")
# As dnf-plugins-core prints it on EL 9; its exit code is 1 where a reboot is required, and where it could not look.
UPDATED = "Core libraries or services have been updated since boot-up:\n{}\nReboot is required to fully utilize them.\n"
CURRENT = "No core libraries or services have been updated since boot-up.\nReboot should not be necessary.\n"


class Host:
    """A host with a tree of its own in place of /run, /boot and /proc, and tools that say what a test says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "run", "etc", "boot", "proc/sys/kernel/random", "proc/1"):
            (root / name).mkdir(parents=True)
        # It was started an hour ago, and its clock was right then.
        self.started = int(time.time()) - 3600
        os.utime(root / "proc/1", (self.started, self.started))
        (root / "proc/uptime").write_text("3600.00 7000.00\n")
        (root / "proc/sys/kernel/random/boot_id").write_text("b-1\n")
        self.tool("uname", "6.8.0-45-generic")
        # Of this machine nothing but these: it may have an rpm or a dnf itself.
        self.tools = root / "tools"
        self.tools.mkdir()
        for name in ("sh", "cat", "sed", "sort", "tail", "grep", "awk", "stat", "date", "cut"):
            (self.tools / name).symlink_to(str(shutil.which(name)))

    def tool(self, name: str, says: str, rc: int = 0) -> None:
        (self.root / "bin" / name).write_text(f"#!/bin/sh\ncat <<'SAYS'\n{says}\nSAYS\nexit {rc}\n")
        (self.root / "bin" / name).chmod(0o755)

    def rpms(self, **hours_after_start: int) -> None:
        """Packages with the time of their installation, as rpm prints them; it ends with 1 for unknown names."""
        rows = [f"{self.started + 3600 * hours} {name}" for name, hours in hours_after_start.items()]
        self.tool("rpm", "\n".join(["package kernel-rt is not installed", *rows]).replace("_", "-"), rc=1)

    def installed(self, *packages: str, kernels: tuple[str, ...] = ()) -> None:
        (self.root / "run/reboot-required").touch()
        (self.root / "run/reboot-required.pkgs").write_text("".join(f"{name}\n" for name in packages))
        for kernel in kernels:
            (self.root / f"boot/vmlinuz-{kernel}").touch()

    def says(self) -> list[str]:
        script = SCRIPT
        for place in ("/run/reboot", "/boot/vmlinuz", "/proc/sys", "/proc/1", "/proc/uptime", "/etc/debian_version"):
            script = script.replace(place, f"{self.root}{place}")
        environment = {"PATH": f"{self.root / 'bin'}:{self.tools}", "LC_ALL": os.environ.get("LC_ALL", "C")}
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env=environment)
        head, *rest = done.stdout.splitlines()
        assert head == "boot b-1" and rest[0] == "kernel 6.8.0-45-generic"
        return rest[1:]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_host_that_nobody_changed_waits_for_nothing(host: Host) -> None:
    assert host.says() == []
    host.tool("needs-restarting", CURRENT)
    assert host.says() == []


def test_a_package_that_is_no_kernel_asks_for_a_reboot_into_any(host: Host) -> None:
    host.installed("libc6", "linux-base")
    assert host.says() == ["reboot-wanted"]


def test_the_newest_kernel_that_is_installed_still_is_wanted(host: Host) -> None:
    images = ("linux-image-6.8.0-90-generic", "linux-image-unsigned-6.8.0-101-generic", "linux-image-6.8.0-110-generic")
    host.installed("linux-base", *images, kernels=("6.8.0-90-generic", "6.8.0-101-generic"))
    assert host.says() == ["reboot-wanted", "wants-kernel 6.8.0-101-generic"]


@pytest.mark.parametrize(("package", "wanted"), [("kernel", True), ("kernel-core", True), ("kernel-headers", False)])
def test_on_el_the_default_of_the_boot_loader_is_wanted_where_a_kernel_was_updated(
    host: Host, package: str, wanted: bool
) -> None:
    host.tool("needs-restarting", UPDATED.format(f"  * {package}\n  * systemd"), rc=1)
    host.tool("grubby", "/boot/vmlinuz-5.14.0-570.el9.x86_64")
    kernel = ["wants-kernel 5.14.0-570.el9.x86_64"] if wanted else []
    assert host.says() == ["reboot-wanted", *kernel]


def test_a_host_whose_boot_loader_says_nothing_may_come_back_with_any_kernel(host: Host) -> None:
    """Netboot: there is no entry on the host."""
    host.tool("needs-restarting", UPDATED.format("  * kernel"), rc=1)
    host.tool("grubby", "", rc=1)
    assert host.says() == ["reboot-wanted"]


def test_a_minimal_el_host_without_the_program_is_asked_through_dnf(host: Host) -> None:
    host.tool("dnf", UPDATED.format("  * kernel-core"), rc=1)
    host.tool("grubby", "/boot/vmlinuz-5.14.0-570.el9.x86_64")
    assert host.says() == ["reboot-wanted", "wants-kernel 5.14.0-570.el9.x86_64"]
    host.tool("dnf", CURRENT)
    assert host.says() == []


def test_a_tool_that_could_not_look_asks_for_no_reboot(host: Host) -> None:
    """Both end with 1 for a broken repository file or a lock as they do for a reboot."""
    host.tool("needs-restarting", "Error: Failed to download metadata for repo 'baseos'", rc=1)
    host.tool("dnf", "No such command: needs-restarting. Please use /usr/bin/dnf --help", rc=1)
    host.rpms(kernel_core=-5, glibc=-5)
    assert host.says() == []


@pytest.mark.parametrize(
    ("tool", "package", "kernel"),
    [
        ("", "kernel_core", True),
        ("", "glibc", False),
        (CURRENT, "kernel_64k_core", True),
        (CURRENT, "kernel_core", True),
    ],
)
def test_what_rpm_installed_after_the_start_counts_where_the_tool_is_missing_or_does_not_know_it(
    host: Host, tool: str, package: str, kernel: bool
) -> None:
    if tool:
        host.tool("needs-restarting", tool)
    host.rpms(**{"systemd": -5, package: 1})
    host.tool("grubby", "/boot/vmlinuz-5.14.0-570.el9.x86_64")
    wanted = ["wants-kernel 5.14.0-570.el9.x86_64"] if kernel else []
    assert host.says() == ["reboot-wanted", *wanted]


def test_on_debian_dnf_and_rpm_are_not_asked(host: Host) -> None:
    (host.root / "etc/debian_version").touch()
    host.rpms(kernel_core=1)
    host.tool("dnf", UPDATED.format("  * kernel-core"), rc=1)
    assert host.says() == []


def test_a_host_whose_first_process_has_no_right_time_is_told_by_its_uptime(host: Host) -> None:
    """Without a clock that runs on, the first process began in 1970, and every package is newer."""
    os.utime(host.root / "proc/1", (0, 0))
    host.rpms(kernel_core=-5, glibc=-5)
    assert host.says() == []
