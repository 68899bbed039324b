# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of its kernel, driver and files, below a directory of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.module_utils import host_state

# NVIDIA/open-gpu-kernel-modules: first line of /proc/driver/nvidia/version, open and proprietary modules.
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08  Fri Jun 27 18:31:55 UTC 2025\n"
MODULES = (
    "nvidia_uvm 2142208 4 - Live 0x0 (OE)\n"
    "nvidia 14376960 130 nvidia_uvm,nvidia_modeset, Live 0x0 (OE)\n"
    "nvidia_modeset 1843200 0 - Live 0x0 (OE)\n"
    "ext4 1146880 1 - Live 0x0\n"
)


@pytest.mark.parametrize(
    ("text", "version", "kind"),
    [(OPEN, "580.95.05", "open"), (CLOSED, "570.172.08", "proprietary"), ("", "", ""), ("NVRM\n", "", "")],
)
def test_the_loaded_driver_is_that_of_either_kind_of_module(tmp_path: Path, text: str, version: str, kind: str) -> None:
    place = tmp_path / "proc/driver/nvidia"
    place.mkdir(parents=True)
    (place / "version").write_text(text, "utf-8")
    (tmp_path / "proc/modules").write_text(MODULES, "utf-8")
    found = host_state.driver(str(tmp_path), "6.8.0")
    assert (found["loaded_driver"], found["loaded_modules"]) == (version, kind)
    assert found["modules"]["nvidia"] == {"uses": 130, "users": ["nvidia_uvm", "nvidia_modeset"]}
    assert "ext4" not in found["modules"]


def test_digests_of_files_that_are_there_and_of_those_that_are_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x", "utf-8")
    found = host_state.digests([str(tmp_path / "a"), str(tmp_path / "b")])
    assert len(found[str(tmp_path / "a")]) == 64
    assert found[str(tmp_path / "b")] == ""


def test_settings_of_files_that_are_read_after_ours_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_state, "_SYSCTL", (str(tmp_path),))
    (tmp_path / "10-early.conf").write_text("vm.swappiness = 10\n", "utf-8")
    (tmp_path / "999-a-tuning.conf").write_text(
        "# vm.swappiness = 5\nvm.swappiness=60\n-net/core/rmem_max=1\n", "utf-8"
    )
    (tmp_path / "99-zz-gpufleet.conf").write_text("vm.swappiness = 1\n", "utf-8")
    (tmp_path / "zzz.conf").write_text("vm.swappiness = 30\n", "utf-8")
    found = [row for row in host_state.set_elsewhere(["vm.swappiness", "net.core.rmem_max"]) if str(tmp_path) in row[2]]
    assert [row[:2] for row in found] == [["vm.swappiness", "60"], ["net.core.rmem_max", "1"], ["vm.swappiness", "30"]]


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/nvidia-dcgm.service\n", "nvidia-dcgm.service"),
        ("12:devices:/a\n1:name=systemd:/system.slice/slurmd.service\n", "slurmd.service"),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8b2f0a51_77aa_4c1e_9d52_1a2b3c4d5e6f.slice/cri-containerd-1f.scope\n",
            "pod 8b2f0a51-77aa-4c1e-9d52-1a2b3c4d5e6f",
        ),
        ("", "no unit"),
    ],
)
def test_processes_that_have_a_device_open_are_named_with_their_unit(tmp_path: Path, cgroup: str, unit: str) -> None:
    for pid, target in (("4711", "/dev/nvidia0"), ("12", "/dev/null")):
        process = tmp_path / "proc" / pid
        (process / "fd").mkdir(parents=True)
        (process / "fd/3").symlink_to(target)
        (process / "comm").write_text("python3\n", "utf-8")
        (process / "cgroup").write_text(cgroup, "utf-8")
    assert host_state.device_users(str(tmp_path)) == [{"process": "python3 (pid 4711)", "unit": unit}]


@pytest.mark.parametrize(
    ("active", "shown", "wanted"),
    [
        ("active", "", "active"),
        ("failed", "Type=oneshot\nResult=exit-code\nExecMainExitTimestampMonotonic=7\n", "failed"),
        ("inactive", "Type=oneshot\nResult=success\nExecMainExitTimestampMonotonic=7\n", "done"),
        # It never ran, was ended before it was done, or is a service that somebody stopped.
        ("inactive", "Type=oneshot\nResult=success\nExecMainExitTimestampMonotonic=0\n", "inactive"),
        ("inactive", "Type=oneshot\nResult=timeout\nExecMainExitTimestampMonotonic=7\n", "inactive"),
        ("inactive", "Type=simple\nResult=success\nExecMainExitTimestampMonotonic=7\n", "inactive"),
        ("", "", "unknown"),
    ],
)
def test_a_unit_that_acts_once_and_did_is_done(
    monkeypatch: pytest.MonkeyPatch, active: str, shown: str, wanted: str
) -> None:
    """NVIDIA/mig-parted, nvidia-mig-manager.service: oneshot without RemainAfterExit, inactive when it is looked at."""

    def systemctl(command: list[str]) -> tuple[int, str, str]:
        return (0, active + "\n", "") if command[1] == "is-active" else (0, shown, "")

    monkeypatch.setattr(host_state, "run", systemctl)
    assert host_state.units(["nvidia-mig-manager.service"]) == {"nvidia-mig-manager.service": wanted}
