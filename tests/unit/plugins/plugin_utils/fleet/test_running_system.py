# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the script of role waves says of a host: its system, whether it waits for a reboot, and with which kernel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = (Path(__file__).resolve().parents[5] / "roles/waves/files/running_system.sh").read_text(encoding="utf-8")
# As dnf-plugins-core prints it on EL 9; its exit code is 1 where a reboot is required.
UPDATED = "Core libraries or services have been updated since boot-up:\n{}\nReboot is required to fully utilize them.\n"
CURRENT = "No core libraries or services have been updated since boot-up.\nReboot should not be necessary.\n"


class Host:
    """A host with a tree of its own in place of /run, /boot and /proc, and tools that say what a test says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "run", "boot", "proc/sys/kernel/random"):
            (root / name).mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("b-1\n")
        self.tool("uname", "6.8.0-45-generic")

    def tool(self, name: str, says: str, rc: int = 0) -> None:
        (self.root / "bin" / name).write_text(f"#!/bin/sh\ncat <<'SAYS'\n{says}\nSAYS\nexit {rc}\n")
        (self.root / "bin" / name).chmod(0o755)

    def installed(self, *packages: str, kernels: tuple[str, ...] = ()) -> None:
        (self.root / "run/reboot-required").touch()
        (self.root / "run/reboot-required.pkgs").write_text("".join(f"{name}\n" for name in packages))
        for kernel in kernels:
            (self.root / f"boot/vmlinuz-{kernel}").touch()

    def says(self) -> list[str]:
        script = SCRIPT
        for place in ("/run/reboot", "/boot/vmlinuz", "/proc/sys"):
            script = script.replace(place, f"{self.root}{place}")
        environment = {"PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "LC_ALL": os.environ.get("LC_ALL", "C")}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env=environment)
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
