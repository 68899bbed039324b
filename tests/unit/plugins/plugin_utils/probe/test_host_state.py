# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What snapshots keep of a host: settings of the kernel, boot parameters, units, and the files of its driver."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    cgroup_units,
    infiniband_class,
    kernel_cmdline,
    nvidia_proc,
    sysctl_files,
    systemctl_show,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

# The form of open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c, with the tabs that it prints.
DRIVER = """\
/proc/driver/nvidia/version:NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (builder)
/proc/driver/nvidia/version:GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
/proc/driver/nvidia/gpus/0000:1a:00.0/information:Model: \t\t NVIDIA H100 80GB HBM3
/proc/driver/nvidia/gpus/0000:1a:00.0/information:GPU UUID: \t GPU-00000000-0000-4000-8000-000000000001
/proc/driver/nvidia/gpus/0000:1a:00.0/information:Video BIOS: \t 96.00.74.00.01
/proc/driver/nvidia/gpus/0000:1a:00.0/information:Bus Location: \t 0000:1a:00.0
/proc/driver/nvidia/gpus/0000:1b:00.0/information:Model: \t\t NVIDIA H100 80GB HBM3
/proc/driver/nvidia/gpus/0000:1b:00.0/information:GPU UUID: \t GPU-????????-????-????-????-????????????
/proc/driver/nvidia/gpus/0000:1b:00.0/information:Video BIOS: \t ??.??.??.??.??
"""


def test_settings_of_the_kernel_are_read_by_path() -> None:
    found = sysctl_files.parse(
        "/proc/sys/kernel/osrelease:6.8.0\n/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456\n"
        "/proc/sys/dev/cdrom/info:drive name:\tsr0\n/proc/sys/dev/cdrom/info:\n"
    )
    assert found["/proc/sys/kernel/osrelease"] == "6.8.0"
    assert found["/proc/sys/net/ipv4/tcp_rmem"] == "4096 131072 6291456"
    assert found["/proc/sys/dev/cdrom/info"] == "drive name: sr0\n"


def test_the_commands_give_what_their_parsers_read_on_this_machine() -> None:
    tools = load_host_tools()
    for name, parse in (("sysctl", sysctl_files.parse), ("kernel_cmdline", kernel_cmdline.parse)):
        tool = tools.named(name)
        for command in (tool.commands[0], tool.node_command):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert parse(done.stdout), (command, done.stderr)
    kernel = sysctl_files.parse(
        subprocess.run(tools.named("sysctl").node_command, capture_output=True, text=True, check=False).stdout
    )
    assert "/proc/sys/kernel/osrelease" in kernel
    assert not [path for path in kernel if "hostname" in path or "/net/" in path or "/shm" in path], "of the pod"


def test_boot_parameters_keep_quoted_blanks_and_leave_out_the_root_and_what_is_for_init() -> None:
    text = 'BOOT_IMAGE=/vmlinuz root=UUID=1 ro hugepagesz=2M hugepagesz=1G iommu="pt soft" -- --tcp-readiness\n'
    assert kernel_cmdline.parse(text) == {
        "BOOT_IMAGE": "/vmlinuz", "ro": "true", "hugepagesz": "2M,1G", "iommu": "pt soft"
    }  # fmt: skip


def test_units_have_their_properties_and_a_missing_one_says_so() -> None:
    text = "Id=kubelet.service\nLoadState=loaded\nActiveState=active\n\nId=docker.service\nLoadState=not-found\n"
    found = systemctl_show.parse(text)
    assert found["kubelet.service"]["ActiveState"] == "active"
    assert found["docker.service"] == {"LoadState": "not-found"}


def test_processes_of_a_unit_are_no_state_of_systemd() -> None:
    place = "/host/cgroup/system.slice"
    text = f"{place}/kubelet.service/cgroup.events:populated 1\n{place}/x.service/cgroup.events:populated 0\n"
    assert cgroup_units.parse(text) == {"kubelet.service": {"Populated": "true"}, "x.service": {"Populated": "false"}}


def test_the_files_of_the_driver_say_release_and_gpus() -> None:
    found = nvidia_proc.parse(DRIVER)
    assert found.release == "580.95.05"
    assert found.gpus["0000:1a:00.0"] == nvidia_proc.DriverGpu(
        "NVIDIA H100 80GB HBM3", "GPU-00000000-0000-4000-8000-000000000001", "96.00.74.00.01"
    )
    assert found.gpus["0000:1b:00.0"].vbios == "", "question marks are no version"
    closed = DRIVER.replace("UNIX Open Kernel Module for x86_64", "UNIX x86_64 Kernel Module")
    assert nvidia_proc.parse(closed).release == "580.95.05"


def test_a_node_without_driver_or_adapters_says_so() -> None:
    assert nvidia_proc.parse("no driver\n") == nvidia_proc.DriverFiles("", {})
    assert infiniband_class.parse("no adapters\n") == {}


def test_adapters_are_named_with_firmware_and_link_layer() -> None:
    place = "/sys/class/infiniband/mlx5_0"
    text = (
        f"{place}/fw_ver:28.39.1002\n{place}/hca_type:MT4129\n{place}/node_guid:9c05:91f8:f700:0001\n"
        f"{place}/ports/1/link_layer:InfiniBand\n"
    )
    adapter = infiniband_class.parse(text)["mlx5_0"]
    assert (adapter.kind, adapter.firmware, adapter.link_layers) == ("MT4129", "28.39.1002", ("InfiniBand",))
    assert adapter.node_guid == "0x9c0591f8f7000001"


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (sysctl_files.parse, ""),
        (sysctl_files.parse, "grep: /proc/sys/fs: No such file or directory"),
        (kernel_cmdline.parse, ""),
        (kernel_cmdline.parse, "a\nb"),
        (systemctl_show.parse, ""),
        (systemctl_show.parse, "System has not been booted with systemd as init system"),
        (systemctl_show.parse, "LoadState=loaded"),
        (cgroup_units.parse, ""),
        (cgroup_units.parse, "/host/cgroup/system.slice/kubelet.service/cgroup.events:populated yes"),
        (nvidia_proc.parse, ""),
        (nvidia_proc.parse, "/proc/driver/nvidia/version:GCC version: gcc 13"),
        (nvidia_proc.parse, DRIVER.replace("Model:", "Modell:")),
        (infiniband_class.parse, ""),
        (infiniband_class.parse, "ls: cannot access"),
    ],
)
def test_what_is_no_such_output_is_refused(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(InputError):
        parse(text)
