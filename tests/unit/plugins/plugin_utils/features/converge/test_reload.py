# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the modules of the driver are loaded anew: who holds them, what is stopped before, and what has to act again."""

from __future__ import annotations

from dataclasses import replace

from converging import DRIVER, FM, as_left, declared, host, stocked

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.app import converged
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.plan import plan_host, question
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.reboot import holders, unloadable
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.state import DeviceUser, KernelModule


def test_modules_are_unloaded_in_order_and_only_if_nobody_uses_them() -> None:
    idle = {
        "nvidia": KernelModule(uses=2, users=("nvidia_uvm", "nvidia_modeset")),
        "nvidia_uvm": KernelModule(uses=0),
        "nvidia_modeset": KernelModule(uses=0),
    }
    assert unloadable(idle) == ("nvidia_modeset", "nvidia_uvm", "nvidia")
    assert holders(idle) == ()
    busy = idle | {"nvidia": KernelModule(uses=5, users=("nvidia_uvm", "nvidia_modeset"))}
    assert holders(busy) == ("nvidia is open 3 times",)
    foreign = idle | {"nvidia": KernelModule(uses=3, users=("nvidia_uvm", "nvidia_modeset", "lustre"))}
    assert "lustre" in holders(foreign)[0]


def test_who_has_the_driver_open_is_named_and_services_that_are_stopped_first_do_not_count() -> None:
    daemon = DeviceUser(process="nvidia-persiste (pid 901)", unit="nvidia-persistenced.service")
    job = DeviceUser(process="python3 (pid 4711)", unit="pod 8b2f0a51-77aa-4c1e-9d52-1a2b3c4d5e6f")
    opened = {"nvidia": KernelModule(uses=9)}
    stopped = ("nvidia-persistenced",)
    assert holders(opened, (daemon,), stopped) == ()
    # It is stopped by now, and something holds the module that nobody can be named for.
    assert holders(opened, (), ()) == ("nvidia is open 9 times",)
    assert holders(opened, (daemon, job), stopped) == (
        "nvidia is open 9 times",
        f"devices of the driver are open in {job.process} of {job.unit}",
    )
    many = holders(opened, (job,) * 10, stopped)[1]
    assert many.endswith("and 2 more")


def test_a_driver_whose_own_services_hold_it_is_loaded_anew() -> None:
    asked = declared(**FM, reload_driver=True)
    state = as_left(
        asked,
        plan_host(asked, stocked(asked)),
        loaded_driver="570.172.08",
        modules={"nvidia": KernelModule(uses=9)},
        device_users=(DeviceUser(process="nv-fabricmanage (pid 7)", unit="nvidia-fabricmanager.service"),),
    )
    reload = plan_host(asked, state).reload
    assert (reload.wanted, reload.stop, reload.holders) == (True, ("nvidia-fabricmanager",), ())
    without = plan_host(asked, replace(state, units={}, device_users=())).reload
    assert without.holders == ("nvidia is open 9 times",)


def test_services_hold_the_driver_whether_or_not_they_are_declared() -> None:
    """DCGM, whose package another tool installed, holds the driver as well; what watches stops before what runs it."""
    asked = declared(**DRIVER, reload_driver=True)
    names = question(asked, host(), None).units
    assert {"nvidia-dcgm.service", "nvidia-fabricmanager.service", "gpufleet-gpu-power.service"} <= set(names)
    assert "nvidia-dcgm.service" not in question(declared(**DRIVER), host(), None).units
    running = dict.fromkeys(names, "active") | {"nvidia-mig-manager.service": "done", "nvsm.service": "inactive"}
    left = as_left(asked, plan_host(asked, stocked(asked)), loaded_driver="570.172.08", units=running)
    reload = plan_host(asked, left).reload
    assert reload.stop[0] == "dcgm-exporter"
    assert reload.stop.index("nvidia-dcgm") < reload.stop.index("nvidia-fabricmanager") < len(reload.stop) - 1
    assert reload.stop[-1] == "nvidia-persistenced"
    assert "nvsm" not in reload.stop
    # What set something on the driver that goes sets it again.
    assert reload.once == ("gpufleet-gpu-power", "nvidia-mig-manager")


def test_a_declared_geometry_is_done_although_its_unit_is_not_active_afterwards() -> None:
    asked = declared(**DRIVER, mig={"config": "all-1g.10gb", "text": "version: v1"})
    state = as_left(asked, plan_host(asked, stocked(asked)), mig_as_declared=True)
    acted = replace(state, units=state.units | {"nvidia-mig-manager.service": "done"})
    assert converged(asked, plan_host(asked, acted), acted, None).done
    never = replace(state, units=state.units | {"nvidia-mig-manager.service": "inactive"})
    assert not converged(asked, plan_host(asked, never), never, None).done


def test_modules_of_the_other_kind_are_another_driver() -> None:
    """The same version, open and proprietary: what is loaded stays until it is loaded anew or the host is rebooted."""
    asked = declared(driver={"version": "580.95.05", "modules": "open"}, reload_driver=True)
    state = as_left(asked, plan_host(asked, stocked(asked)), loaded_modules="proprietary")
    plan = plan_host(asked, state)
    assert plan.reboot == ("the proprietary modules of driver 580.95.05 are loaded, open declared",)
    assert plan.reload.wanted
    assert not converged(asked, plan, state, None).done
    fits = replace(state, loaded_modules="open")
    assert converged(asked, plan_host(asked, fits), fits, None).done
    assert not plan_host(asked, fits).reload.wanted
