# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What grubby is told, held against a boot entry that changes as grubby changes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from converging import ROCKY, declared, host

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.plan import HostPlan, plan_host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.state import HostState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError


def after_grubby(entry: str, told: tuple[str, ...]) -> str:
    """rhboot/grubby grubby-bls, update_args: whatever has the name of one that is added goes, then all are added."""
    names = {argument.partition("=")[0] for argument in told}
    kept = [argument for argument in entry.split() if argument.partition("=")[0] not in names]
    return " ".join((*kept, *told))


def planned(entry: str, *arguments: str, running: str | None = None, **parts: object) -> tuple[HostPlan, HostState]:
    state = host(ROCKY, boot_arguments=entry, command_line=entry if running is None else running)
    return plan_host(declared(kernel_arguments=list(arguments), **parts), state), state


@pytest.mark.parametrize(
    ("entry", "arguments", "after"),
    [
        ("ro iommu=off", ("iommu=pt",), "ro iommu=pt"),
        ("ro console=tty0", ("console=tty0", "console=ttyS0,115200"), "ro console=tty0 console=ttyS0,115200"),
        ("ro console=tty0", ("console=ttyS0,115200",), "ro console=tty0 console=ttyS0,115200"),
        (
            "ro hugepagesz=2M hugepages=512",
            ("hugepagesz=1G", "hugepages=16"),
            "ro hugepagesz=2M hugepages=512 hugepagesz=1G hugepages=16",
        ),
        ("ro quiet", (), "ro quiet"),
    ],
)
def test_an_entry_has_what_is_declared_after_one_run_and_keeps_what_may_stand_beside_it(
    entry: str, arguments: tuple[str, ...], after: str
) -> None:
    plan, state = planned(entry, *arguments)
    found = after_grubby(entry, plan.add_arguments)
    assert found == after
    lacking = [line for line in plan.changes if line.startswith("kernel command line: add")]
    assert len(lacking) == len([argument for argument in arguments if argument not in entry.split()])
    wanted = declared(kernel_arguments=list(arguments))
    again = plan_host(wanted, replace(state, boot_arguments=found, command_line=found, ledger=plan.ledger_after))
    assert (again.add_arguments, again.changes, again.reboot) == ((), (), ())


def test_a_host_that_is_started_from_elsewhere_with_what_is_declared_has_nothing_to_do() -> None:
    plan, _state = planned("", "iommu=pt", running="initrd=image ro iommu=pt")
    assert (plan.changes, plan.add_arguments, plan.reboot) == ((), (), ())


def test_a_host_without_a_boot_entry_is_refused_where_its_kernel_lacks_what_is_declared() -> None:
    with pytest.raises(ProblemsError, match="iommu=pt cannot be added") as caught:
        planned("", "iommu=pt", "quiet", running="initrd=image ro quiet")
    assert "where the host is started from" in str(caught.value)
