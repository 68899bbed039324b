# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages move together, at which version, from where; what is missing is refused before anything moves."""

from __future__ import annotations

from typing import Any

import pytest
from converging import REPOSITORY, ROCKY, UBUNTU, declared, host, offers, stocked

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.app import simulation_problems
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.plan import plan_host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.state import (
    HostState,
    Offer,
    PackageState,
    Simulation,
    load_package_names,
    named,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.transaction import same_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import recipe_directories

FM = {"driver": {"version": "580.95.05"}, "nvlink": {"services": "fabric-manager"}}
NO_SET = r"no package names are known"


def versions(state: HostState, **parts: Any) -> dict[str, str]:
    plan = plan_host(declared(**parts), state)
    return {package.name: package.version for one in plan.transactions for package in one.packages}


@pytest.mark.parametrize(
    ("facts", "version", "expected"),
    [
        (UBUNTU, "570.172.08", ("libnvidia-compute-570", "nvidia-dkms-570-open", "nvidia-fabricmanager-570")),
        (UBUNTU, "580.95.05", ("libnvidia-compute-580", "nvidia-dkms-580-open", "nvidia-fabricmanager")),
        (UBUNTU, "590.48.01", ("libnvidia-compute", "nvidia-dkms-open", "nvidia-fabricmanager")),
        (ROCKY, "570.172.08", ("nvidia-driver-cuda", "kmod-nvidia-open-dkms", "nvidia-fabric-manager")),
        (ROCKY, "580.95.05", ("nvidia-driver-cuda", "kmod-nvidia-open-dkms", "nvidia-fabricmanager")),
        ({**UBUNTU, "distribution": "Debian", "release": "12"}, "580.95.05", ("nvidia-driver-cuda",)),
    ],
)
def test_names_follow_family_and_branch(facts: dict[str, str], version: str, expected: tuple[str, ...]) -> None:
    wanted = declared(driver={"version": version}, nvlink={"services": "fabric-manager"})
    system = host(facts).system
    found = (*named("driver", system, wanted.driver).packages, *named("fabric-manager", system, wanted.driver).packages)
    assert set(expected) <= set(found)


@pytest.mark.parametrize(
    ("sku", "expected"),
    [
        ("hgx-h100", {"nvidia-fabricmanager", "libnvidia-nscq"}),
        ("dgx-a100", {"nvidia-fabricmanager", "libnvidia-nscq"}),
        ("dgx-b200", {"nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm", "nvlsm", "infiniband-diags"}),
        ("gb200-nvl72", {"nvidia-imex"}),
        ("pcie-l40s", set()),
    ],
)
def test_what_an_nvlink_fabric_needs_follows_from_the_sku(sku: str, expected: set[str]) -> None:
    facts = load_hardware(recipe_directories("hardware"))[sku]
    wanted = declared(driver={"version": "580.95.05"}, nvlink={"imex_nodes": ["10.0.0.1"]})
    plan = plan_host(wanted, stocked(wanted, sku=facts), sku=facts)
    driver = next(one for one in plan.transactions if one.title == "driver")
    assert {package.name for package in driver.packages} - set(
        named("driver", host().system, wanted.driver).packages
    ) == expected
    # nvlsm has a version line of its own, and is neither pinned nor held.
    assert all(bool(p.version) == (p.name not in ("nvlsm", "infiniband-diags")) for p in driver.packages)


def test_the_whole_set_is_one_transaction_at_the_exact_version_and_held() -> None:
    wanted = declared(**FM)
    plan = plan_host(wanted, stocked(wanted))
    assert [one.title for one in plan.transactions] == ["driver"]
    assert {package.version for package in plan.transactions[0].packages} == {"580.95.05-1ubuntu1"}
    assert set(plan.hold) == set(plan.transactions[0].packages)


def test_a_fabric_manager_of_another_version_is_brought_back_although_it_is_newer() -> None:
    wanted = declared(**FM)
    plan = plan_host(wanted, stocked(wanted, installed={"nvidia-fabricmanager": "580.105.08-1ubuntu1"}))
    assert "driver: nvidia-fabricmanager 580.105.08-1ubuntu1 -> 580.95.05-1ubuntu1" in plan.changes


def test_what_works_with_one_version_only_moves_along_though_it_is_not_declared() -> None:
    wanted = declared(driver={"version": "580.95.05"})
    state = stocked(wanted, installed={"nvidia-imex": "570.172.08-1ubuntu1", "nvidia-modprobe": "570.172.08-1ubuntu1"})
    found = versions(state, driver={"version": "580.95.05"})
    assert found["nvidia-imex"] == found["nvidia-modprobe"] == "580.95.05-1ubuntu1"
    assert "nvidia-fabricmanager" not in found


def test_a_set_that_is_not_whole_is_refused_with_what_is_there() -> None:
    wanted = declared(**FM)
    with pytest.raises(ProblemsError, match="no version of it") as caught:
        plan_host(wanted, stocked(wanted, without=("nvidia-fabricmanager", "libnvidia-nscq")))
    assert len(caught.value.problems) == 2
    newer = stocked(wanted).packages | {
        "nvidia-fabricmanager": PackageState(available=offers(host().system, ("580.105.08",)))
    }
    with pytest.raises(ProblemsError, match=r"580\.95\.05 is not in the repositories of the host: 580\.105\.08"):
        plan_host(wanted, host(packages=newer))


def test_a_fabric_manager_that_cannot_match_is_named_once_where_another_one_is_installed() -> None:
    wanted, newer = declared(**FM), "580.105.08-1ubuntu1"
    only = PackageState(installed=newer, available=offers(host().system, ("580.105.08",)))
    packages = stocked(wanted).packages | {"nvidia-fabricmanager": only}
    with pytest.raises(ProblemsError) as caught:
        plan_host(wanted, host(packages=packages))
    (problem,) = caught.value.problems
    assert "nvidia-fabricmanager" in str(problem) and newer in str(problem) and "580.95.05" in str(problem)


def test_a_set_of_two_repositories_is_refused() -> None:
    wanted = declared(**FM)
    other = tuple(Offer(version=o.version, origin="https://archive.example noble") for o in offers(host().system))
    packages = stocked(wanted).packages | {"nvidia-fabricmanager": PackageState(available=other)}
    with pytest.raises(ProblemsError, match="different repositories"):
        plan_host(wanted, host(packages=packages))


def test_a_mirror_that_has_the_set_as_well_is_no_conflict() -> None:
    wanted = declared(**FM)
    both = (*offers(host().system, origin="https://archive.example noble"), *offers(host().system, origin=REPOSITORY))
    packages = stocked(wanted).packages | {"nvidia-fabricmanager": PackageState(available=both)}
    assert plan_host(wanted, host(packages=packages)).changes


def test_an_unknown_branch_or_flavour_is_refused_with_what_is_known() -> None:
    wanted = declared(driver={"version": "580.95.05", "origin": "ubuntu"})
    with pytest.raises(InputError, match=NO_SET) as caught:
        stocked(wanted)
    assert "nvidia open dkms" in caught.value.hint


def test_el_9_enables_a_stream_and_el_10_has_none() -> None:
    wanted = declared(driver={"version": "580.95.05"})
    nine = plan_host(wanted, stocked(wanted, ROCKY))
    assert nine.transactions[0].stream == "nvidia-driver:open-dkms"
    assert "kmod-nvidia-open-dkms-3:580.95.05-1.el9.*" in nine.locks
    ten = plan_host(wanted, stocked(wanted, {**ROCKY, "release": "10"}))
    assert ten.transactions[0].stream == ""
    assert ten.locks == nine.locks


def test_adapters_come_before_the_driver_which_is_built_again_if_it_stays() -> None:
    wanted = declared(driver={"version": "580.95.05"}, ofed={"kind": "doca", "version": "3.2.1"})
    fresh = plan_host(wanted, stocked(wanted))
    assert [one.title for one in fresh.transactions] == ["DOCA-OFED", "driver"]
    assert not fresh.rebuild_modules
    # It would drop every link; the reboot starts it.
    assert "openibd.service" not in {unit.name for unit in fresh.units}
    assert any("DOCA-OFED" in reason for reason in fresh.reboot)
    names = named("driver", host().system, wanted.driver).packages
    there = stocked(wanted, installed=dict.fromkeys(names, "580.95.05-1ubuntu1"))
    assert plan_host(wanted, there).rebuild_modules
    assert any("DOCA-OFED" in reason for reason in plan_host(wanted, there).reboot)


def test_dcgm_takes_the_cuda_major_of_the_driver_and_may_remove_the_third_generation() -> None:
    wanted = declared(driver={"version": "570.172.08"}, dcgm={"version": "4.5.2", "proprietary": True})
    plan = plan_host(wanted, stocked(wanted))
    dcgm = next(one for one in plan.transactions if one.title == "DCGM")
    assert "datacenter-gpu-manager-4-cuda12" in {package.name for package in dcgm.packages}
    assert dcgm.may_remove == ("datacenter-gpu-manager",)


@pytest.mark.parametrize(
    ("full", "same"),
    [
        ("580.95.05-1ubuntu1", True),
        ("3:580.95.05-1.el9", True),
        ("580.95.05", True),
        ("580.95.05.1-1", False),
        ("580.105.08-1ubuntu1", False),
        ("1580.95.05-1", False),
        ("", False),
    ],
)
def test_a_version_is_compared_without_epoch_and_release(full: str, same: bool) -> None:
    assert same_version(full, "580.95.05") is same


@pytest.mark.parametrize(
    ("simulated", "wanted"),
    [
        (None, "was not asked"),
        (Simulation(error="held packages"), "held packages"),
        (Simulation(remove=("datacenter-gpu-manager-4-core",)), "would be removed"),
        (Simulation(install={"linux-image-6.8.0-99-generic": "1"}), "would change the kernel"),
        (Simulation(install={"nvidia-fabricmanager": "580.105.08-1ubuntu1"}), "580.95.05-1ubuntu1 is planned"),
    ],
)
def test_what_the_package_manager_would_do_beyond_the_plan_is_refused(
    simulated: Simulation | None, wanted: str
) -> None:
    asked = declared(**FM)
    state = stocked(asked, simulation=simulated)
    problems = simulation_problems(plan_host(asked, state), state)
    assert len(problems) == 1
    assert wanted in str(problems[0])


def test_the_other_flavour_may_go_and_dependencies_may_come() -> None:
    asked = declared(**FM)
    simulated = Simulation(install={"dkms": "3.0.11-1ubuntu13"}, remove=("nvidia-dkms-580",))
    state = stocked(asked, simulation=simulated)
    assert simulation_problems(plan_host(asked, state), state) == []
    assert simulation_problems(plan_host(declared(), host()), host()) == []


@pytest.mark.parametrize(
    "name",
    [
        "kernel-core",
        "kernel-modules-core",
        "kernel-64k-core",
        "kernel-rt-core",
        "kernel-uek-core",
        "linux-image-6.8.0-99",
    ],
)
def test_every_package_that_brings_a_kernel_is_known(name: str) -> None:
    asked = declared(**FM)
    state = stocked(asked, simulation=Simulation(install={name: "1"}))
    (problem,) = simulation_problems(plan_host(asked, state), state)
    assert "would change the kernel" in str(problem)


@pytest.mark.parametrize("name", ["kernel-devel", "kernel-headers", "kernel-tools", "linux-headers-6.8.0-60-generic"])
def test_what_belongs_to_a_kernel_and_brings_none_may_come(name: str) -> None:
    asked = declared(**FM)
    state = stocked(asked, simulation=Simulation(install={name: "1"}))
    assert simulation_problems(plan_host(asked, state), state) == []


SIXTY_FOUR = {**ROCKY, "kernel": "5.14.0-570.el9.aarch64+64k", "architecture": "aarch64"}


@pytest.mark.parametrize(
    ("facts", "brings", "whole"),
    [
        (UBUNTU, {}, False),
        (UBUNTU, {"linux-headers-6.8.0-99-generic": "6.8.0-99.99"}, False),
        (UBUNTU, {"linux-headers-6.8.0-60-generic": "6.8.0-60.63"}, True),
        (ROCKY, {"kernel-devel": "0:5.14.0-570.12.1.el9_6"}, False),
        (ROCKY, {"kernel-devel": "0:5.14.0-570.el9"}, True),
        (SIXTY_FOUR, {"kernel-64k-devel": "0:5.14.0-570.el9"}, True),
    ],
)
def test_dkms_is_not_begun_without_the_headers_of_the_running_kernel(
    facts: dict[str, str], brings: dict[str, str], whole: bool
) -> None:
    asked = declared(driver={"version": "580.95.05"})
    state = stocked(asked, facts, kernel_headers=False, simulation=Simulation(install=brings))
    problems = simulation_problems(plan_host(asked, state), state)
    assert len(problems) == (0 if whole else 1)
    assert whole or f"headers of kernel {facts['kernel']}" in str(problems[0])


def test_headers_are_not_asked_for_where_nothing_is_to_be_built() -> None:
    asked = declared(driver={"version": "580.95.05"})
    built = ("nvidia/580.95.05, 6.8.0-60-generic, x86_64: installed",)
    there = stocked(asked, kernel_headers=False, dkms=built, simulation=Simulation())
    assert simulation_problems(plan_host(asked, there), there) == []


def test_an_el_host_that_cannot_lock_versions_is_refused_before_anything_moves() -> None:
    asked = declared(**FM)
    with pytest.raises(ProblemsError, match="python3-dnf-plugin-versionlock") as caught:
        plan_host(asked, stocked(asked, ROCKY, without=("python3-dnf-plugin-versionlock",)))
    assert len(caught.value.problems) == 1
    with pytest.raises(ProblemsError, match=r"does not keep versions: /etc/dnf/dnf\.conf has plugins=0"):
        plan_host(asked, stocked(asked, ROCKY, locks_off="/etc/dnf/dnf.conf has plugins=0"))
    settings = declared(time_source={"kind": "chrony", "servers": ["ntp1.example"]})
    assert plan_host(settings, stocked(settings, ROCKY)).changes


def test_every_set_of_names_says_who_published_it() -> None:
    assert [found for found in load_package_names().sets if len(found.source) < 10] == []
