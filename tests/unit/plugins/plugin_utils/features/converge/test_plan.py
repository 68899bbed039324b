# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written, started, removed and rebooted for; who else owns a part; when a host is as declared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from converging import DRIVER, FM, ROCKY, UBUNTU, as_left, declared, host, stocked

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.app import converged
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.declaration import Declaration
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.plan import (
    HostPlan,
    load_owner_marks,
    plan_host,
    question,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.state import KernelModule
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import recipe_directories


def contents(plan: HostPlan) -> dict[str, str]:
    return {file.path: file.content for file in plan.files}


@pytest.mark.parametrize("facts", [UBUNTU, ROCKY], ids=["ubuntu", "rocky"])
def test_a_host_that_is_as_declared_has_nothing_to_do(facts: dict[str, str]) -> None:
    wanted = declared(**FM, persistence=True, sysctl={"vm.swappiness": "1"})
    first = plan_host(wanted, stocked(wanted, facts))
    assert first.changes
    state = as_left(wanted, first, facts)
    again = plan_host(wanted, state)
    assert (again.changes, again.effects, again.reboot) == ((), (), ())
    assert converged(wanted, again, state, None).done


def test_a_part_that_is_not_declared_is_not_touched() -> None:
    plan = plan_host(declared(), host())
    assert plan == HostPlan(parts=())


def test_settings_are_drop_ins_with_our_mark() -> None:
    parts = {
        "sysctl": {"net.ipv4.tcp_rmem": "4096 87380 268435456"},
        "hugepages": {"size_2m": 8192, "size_1g": 2},
        "kernel_arguments": ["iommu=pt"],
        "limits": [{"domain": "*", "item": "memlock", "value": "unlimited"}],
        "service_limits": {"kubelet": {"LimitMEMLOCK": "infinity"}},
        "time_source": {"kind": "chrony", "servers": ["ntp1.example"]},
    }
    wanted = declared(**parts)
    found = contents(plan_host(wanted, stocked(wanted)))
    assert all("Written by gpufleet.bringup" in text for text in found.values())
    assert "vm.nr_hugepages = 8192" in found["/etc/sysctl.d/99-zz-gpufleet.conf"]
    grub = found["/etc/default/grub.d/99-zz-gpufleet.cfg"]
    assert 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt hugepagesz=1G hugepages=2"' in grub
    assert "* - memlock unlimited" in found["/etc/security/limits.d/99-zz-gpufleet.conf"]
    assert "LimitMEMLOCK=infinity" in found["/etc/systemd/system/kubelet.service.d/99-zz-gpufleet.conf"]
    assert "server ntp1.example iburst" in found["/etc/chrony/conf.d/gpufleet.conf"]
    rocky = plan_host(wanted, stocked(wanted, ROCKY))
    assert "/etc/default/grub.d/99-zz-gpufleet.cfg" not in contents(rocky)
    assert rocky.add_arguments == ("iommu=pt", "hugepagesz=1G", "hugepages=2")
    assert "/etc/chrony.d/gpufleet.conf" in contents(rocky)


def test_names_are_pinned_and_left_alone_by_automatic_upgrades_and_nothing_else_is() -> None:
    wanted = declared(**FM)
    found = contents(plan_host(wanted, stocked(wanted)))
    pins = found["/etc/apt/preferences.d/gpufleet"]
    assert "Package: nvidia-fabricmanager\nPin: version 580.95.05-1ubuntu1\nPin-Priority: 1001" in pins
    assert "*" not in pins
    assert '"^nvidia-";' in found["/etc/apt/apt.conf.d/99gpufleet"]
    settings = declared(sysctl={"vm.swappiness": "1"})
    assert list(contents(plan_host(settings, stocked(settings)))) == ["/etc/sysctl.d/99-zz-gpufleet.conf"]


def test_the_question_names_every_file_and_unit_of_the_plan() -> None:
    wanted = declared(
        **FM, persistence=True, power_limit_w=650, sysctl={"vm.swappiness": "1"}, kernel_arguments=["iommu=pt"]
    )
    asked = question(wanted, host(), None)
    plan = plan_host(wanted, stocked(wanted))
    assert set(asked.paths) == set(contents(plan))
    assert set(asked.units) == {unit.name for unit in plan.units}


def test_a_declaration_that_is_taken_back_removes_our_files_and_holds_and_no_package() -> None:
    wanted = declared(**FM, sysctl={"vm.swappiness": "1"}, power_limit_w=650)
    state = as_left(wanted, plan_host(wanted, stocked(wanted)))
    plan = plan_host(declared(**DRIVER), state)
    assert "/etc/sysctl.d/99-zz-gpufleet.conf" in plan.remove_files
    assert plan.remove_units == ("gpufleet-gpu-power.service",)
    assert set(plan.effects) == {"sysctl", "units"}
    gone = plan_host(declared(), state)
    assert set(gone.unhold) == {package.name for package in plan_host(wanted, stocked(wanted)).hold}
    assert gone.transactions == ()


def test_an_effect_that_a_run_did_not_get_to_is_done_by_the_next() -> None:
    wanted = declared(sysctl={"vm.swappiness": "1"})
    first = plan_host(wanted, stocked(wanted))
    ended = host(digests={file.path: file.digest for file in first.files}, ledger=first.ledger_during)
    assert plan_host(wanted, ended).effects == ("sysctl",)


def test_what_dpkg_was_ended_in_is_finished_first_and_is_not_done_before() -> None:
    wanted = declared(**FM)
    plan = plan_host(wanted, stocked(wanted))
    left = as_left(wanted, plan, unfinished=("nvidia-dkms-580-open",))
    again = plan_host(wanted, left)
    assert again.changes == ("finish what dpkg was ended in: nvidia-dkms-580-open",)
    assert converged(wanted, again, left, None).wrong == (f"not as planned: {again.changes[0]}",)
    # Where no package is declared it is nothing of ours.
    limits = declared(limits=[{"domain": "*", "type": "-", "item": "memlock", "value": "unlimited"}])
    assert not plan_host(limits, host(unfinished=("vim",))).unfinished


def test_a_reboot_is_needed_until_the_host_was_rebooted() -> None:
    wanted = declared(module_options={"nvidia": {"NVreg_RestrictProfilingToAdminUsers": "0"}})
    first = plan_host(wanted, host())
    assert first.reboot == ("options of kernel modules",)
    digests = {file.path: file.digest for file in first.files}
    same_boot = plan_host(wanted, host(digests=digests, ledger=first.ledger_after))
    assert same_boot.reboot == first.reboot
    assert plan_host(wanted, host(digests=digests, ledger=first.ledger_after, boot="boot-2")).reboot == ()


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ({"loaded_driver": "570.172.08"}, "570.172.08 is loaded"),
        ({"modules": {"nouveau": KernelModule(uses=1)}}, "nouveau is loaded"),
        ({"command_line": "ro quiet"}, "without iommu=pt"),
    ],
)
def test_what_only_a_reboot_brings_is_told(shown: dict[str, Any], reason: str) -> None:
    wanted = declared(**DRIVER, kernel_arguments=["iommu=pt"])
    shown = {"command_line": "ro iommu=pt", **shown}
    plan = plan_host(wanted, replace(stocked(wanted), **shown))
    assert any(reason in text for text in plan.reboot)
    assert not plan.may_reboot


@pytest.mark.parametrize(
    ("parts", "shown", "labels", "wanted"),
    [
        ({"sysctl": {"vm.swappiness": "1"}}, {"marks": ("/etc/sysctl.d/999-tuning-tuning.conf",)}, {}, "nodewright"),
        (
            {"limits": [{"domain": "*", "item": "memlock", "value": "1"}]},
            {"marks": ("/etc/security/limits.d/999-a-tuning.conf",)},
            {},
            "nodewright",
        ),
        ({"kernel_arguments": ["iommu=pt"]}, {"marks": ("/etc/default/grub.d/999-a-tuning.cfg",)}, {}, "nodewright"),
        (DRIVER, {}, {"nvidia.com/gpu.deploy.driver": "true"}, "GPU operator"),
        (FM, {}, {"resource.nvidia.com/computeDomain": "19bc1698-3153-428b-867f-b0cda2102149"}, "DRA driver"),
        (
            {"ofed": {"kind": "doca", "version": "3.2.1"}},
            {},
            {"nvidia.com/ofed-driver-upgrade-state": "upgrade-done"},
            "network operator",
        ),
        (
            {"sysctl": {"vm.swappiness": "1"}},
            {"set_elsewhere": (("vm.swappiness", "60", "/etc/sysctl.conf"),)},
            {},
            "/etc/sysctl.conf",
        ),
    ],
)
def test_a_part_with_two_owners_is_an_error_that_names_both(
    parts: dict[str, Any], shown: dict[str, Any], labels: dict[str, str], wanted: str
) -> None:
    asked = declared(**parts)
    with pytest.raises(ProblemsError) as caught:
        plan_host(asked, replace(stocked(asked), **shown), labels=labels)
    assert "gpufleet_converge declares it" in str(caught.value)
    assert wanted in str(caught.value)


def test_what_the_other_owner_has_and_nobody_declares_is_no_conflict() -> None:
    asked = declared(**DRIVER, sysctl={"vm.swappiness": "1"})
    shown = replace(
        stocked(asked),
        marks=("/etc/default/grub.d/999-a-tuning.cfg",),
        set_elsewhere=(("vm.swappiness", "1", "/etc/sysctl.conf"),),
    )
    assert plan_host(asked, shown, labels={"nvidia.com/gpu.deploy.driver": "pre-installed"}).changes
    with pytest.raises(ProblemsError, match="gpufleet_driver_owner is operator"):
        plan_host(asked, shown, driver_owner="operator")


def test_parts_of_marks_are_parts_of_declarations() -> None:
    assert {mark.part for mark in load_owner_marks()} <= set(Declaration.__dataclass_fields__)
    assert all(bool(mark.path) != bool(mark.label) for mark in load_owner_marks())


def test_a_kind_of_gpu_without_proprietary_modules_and_an_old_kernel_are_refused() -> None:
    b200 = load_hardware(recipe_directories("hardware"))["dgx-b200"]
    wanted = declared(driver={"version": "580.95.05", "modules": "proprietary"})
    with pytest.raises(ProblemsError, match="b200 needs open"):
        plan_host(wanted, stocked(wanted), sku=b200)
    direct = declared(gpu_direct="dma-buf")
    with pytest.raises(ProblemsError, match="state peermem"):
        plan_host(direct, host({**UBUNTU, "kernel": "5.4.0-200-generic"}))
    assert plan_host(direct, host()).parts == ("gpu_direct",)


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ({"loaded_driver": ""}, "module of the driver is not there"),
        ({"library_driver": "580.105.08"}, "library of the driver is 580.105.08"),
        ({"dkms": ("nvidia/580.95.05, 6.8.0-59-generic, x86_64: installed",)}, "DKMS has no"),
        ({"dkms": ("nvidia/580.95.05, 6.8.0-60-generic, x86_64: built",)}, "DKMS has no"),
        ({"fabric_states": ("Completed",) * 7 + ("In Progress",)}, "In Progress"),
        ({"fabric_states": ()}, "was not seen"),
        ({"units": {}}, "nvidia-fabricmanager.service"),
    ],
)
def test_changed_is_not_done(shown: dict[str, Any], wanted: str) -> None:
    asked = declared(**FM)
    state = as_left(asked, plan_host(asked, stocked(asked)), **shown)
    found = converged(asked, plan_host(asked, state), state, None)
    assert not found.done
    assert any(wanted in text for text in (*found.wrong, *found.reboot))


def test_a_driver_that_dkms_did_not_build_for_the_running_kernel_is_built() -> None:
    """A transaction that was ended in the script that builds it leaves the package installed; no script runs again."""
    asked = declared(**FM)
    whole = as_left(asked, plan_host(asked, stocked(asked, ROCKY)), ROCKY)
    assert not plan_host(asked, whole).build_modules
    ended = replace(whole, dkms=("nvidia/580.95.05: added",), loaded_driver="")
    plan = plan_host(asked, ended)
    assert plan.build_modules == "580.95.05"
    assert [line for line in plan.changes if "DKMS has no nvidia/580.95.05" in line]
    # The packages of a driver that is not there yet build it themselves.
    assert not plan_host(asked, stocked(asked, ROCKY)).build_modules


def test_what_an_rpm_that_was_ended_left_twice_is_refused_by_name() -> None:
    asked = declared(**FM)
    versions = ("3:580.105.08-1.el9", "3:580.95.05-1.el9")
    with pytest.raises(
        ProblemsError, match=r"nvidia-fabricmanager: is installed as 3:580\.105\.08-1\.el9 and 3:580\.95"
    ) as caught:
        plan_host(asked, stocked(asked, ROCKY, duplicates={"nvidia-fabricmanager": versions}))
    assert "dnf remove --duplicates" in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "kernel", "wrong"),
    [
        ({"sysctl": {"vm.swappiness": "1"}}, {"vm.swappiness": "10"}, "vm.swappiness 10 -> 1"),
        ({"sysctl": {"vm.swappiness": "1"}}, {}, "vm.swappiness not seen -> 1"),
        ({"sysctl": {"net/core/rmem_max": "1"}}, {"net.core.rmem_max": "1"}, ""),
        ({"sysctl": {"net.ipv4.tcp_rmem": "4096 87380 9"}}, {"net.ipv4.tcp_rmem": "4096\t87380\t9"}, ""),
        # The kernel shows it as 8080-8081.
        ({"sysctl": {"net.ipv4.ip_local_reserved_ports": "8080,8081"}}, {}, ""),
        # Memory was too fragmented for all of them.
        ({"hugepages": {"size_2m": 8192}}, {"vm.nr_hugepages": "7000"}, "vm.nr_hugepages 7000 -> 8192"),
    ],
)
def test_what_the_kernel_has_counts_and_not_the_file(parts: dict[str, Any], kernel: dict[str, str], wrong: str) -> None:
    asked = declared(**parts)
    first = plan_host(asked, host())
    state = as_left(asked, first, sysctl=kernel)
    plan = plan_host(asked, state)
    assert plan.effects == (("sysctl",) if wrong else ())
    found = converged(asked, plan, state, None).wrong
    assert len(found) == (1 if wrong else 0)
    assert all(wrong in text for text in found)


def test_mig_and_peermem_are_held_against_what_is_loaded() -> None:
    asked = declared(mig={"config": "all-1g.10gb", "text": "version: v1\n"}, gpu_direct="peermem")
    plan = plan_host(asked, host())
    state = as_left(asked, plan, mig_as_declared=None)
    assert len(converged(asked, plan_host(asked, state), state, None).wrong) == 2
    good = replace(state, mig_as_declared=True, modules={"nvidia_peermem": KernelModule(uses=0)})
    assert converged(asked, plan_host(asked, good), good, None).done
