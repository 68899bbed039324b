#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module node_state_info: what a host shows before and after it is converged."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state_info
short_description: Look at what role converge has to know of a host
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Reads operating system, packages and what the repositories offer of them, the driver that is loaded and the one that
    is installed, services, files and marks of other owners, in one module execution.
  - Lets the package manager simulate a transaction on request. Changes nothing.
  - M(gpufleet.bringup.node_plan_info) says what to ask, and makes the plan from the answer.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  action:
    description: Runs on the host.
    support: none
options:
  packages:
    description: Names that the package manager is asked about.
    type: list
    elements: str
    default: []
  paths:
    description: Files whose digests are read.
    type: list
    elements: str
    default: []
  marks:
    description: Patterns of files that other owners leave.
    type: list
    elements: str
    default: []
  sysctl:
    description: Settings that are looked for in files that are read after ours.
    type: list
    elements: str
    default: []
  units:
    description: Units whose state is read.
    type: list
    elements: str
    default: []
  mig_config:
    description: Name of the MIG configuration that is held against the GPUs. Without it they are not asked.
    type: str
    default: ""
  simulate:
    description: Packages with versions, as the package manager takes them, whose installation is simulated.
    type: list
    elements: str
    default: []
  preferences:
    description: Preferences of apt, or lines of the version lock of dnf, under which it simulates.
    type: str
    default: ""
  stream:
    description: Module stream of dnf under which it simulates.
    type: str
    default: ""
  kernel_root:
    description: Directory below which C(/proc) and C(/sys) are looked for. Tests without a GPU state another one.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Look at the host
  gpufleet.bringup.node_state_info:
    packages: [nvidia-fabricmanager]
    units: [nvidia-fabricmanager.service]
"""

RETURN = r"""
state:
  description: What was found, as M(gpufleet.bringup.node_plan_info) takes it.
  type: dict
  returned: success
  contains:
    family:
      description: C(debian), C(redhat) or C(other).
      type: str
      returned: always
    distribution:
      description: Name of the distribution, as Ansible writes it.
      type: str
      returned: always
    release:
      description: Its release.
      type: str
      returned: always
    architecture:
      description: Of the machine.
      type: str
      returned: always
    kernel:
      description: Release of the kernel that runs.
      type: str
      returned: always
    boot:
      description: Id of this boot.
      type: str
      returned: always
    packages:
      description: >-
        By package that was asked for, C(installed) (its version or empty), C(held), and what is C(available), the
        newest first, each with C(version) and C(origin).
      type: dict
      returned: always
    unfinished:
      description: Packages that a dpkg left which was ended in the middle.
      type: list
      elements: str
      returned: always
    duplicates:
      description: By package that an rpm left twice, all its versions.
      type: dict
      returned: always
    locks_off:
      description: Why dnf does not heed its version lock, or empty.
      type: str
      returned: always
    simulation:
      description: What the package manager would do; none where it was not asked.
      type: dict
      returned: always
      contains:
        install:
          description: By package, the version that would be installed.
          type: dict
          returned: always
        remove:
          description: Packages that would go.
          type: list
          elements: str
          returned: always
        error:
          description: Why it refuses, or empty.
          type: str
          returned: always
    loaded_driver:
      description: Version of the driver's module that is loaded, or empty.
      type: str
      returned: always
    loaded_modules:
      description: C(open), C(proprietary), or empty.
      type: str
      returned: always
    library_driver:
      description: Version of the driver's library that is installed, or empty.
      type: str
      returned: always
    modules:
      description: >-
        By module of the driver that is loaded, C(uses), how often it is used, and C(users), the modules that use
        it.
      type: dict
      returned: always
    device_users:
      description: Processes that have a device of the driver open.
      type: list
      elements: dict
      returned: always
      contains:
        process:
          description: The process.
          type: str
          returned: always
        unit:
          description: The unit or pod that it belongs to.
          type: str
          returned: always
    dkms:
      description: What DKMS says of the driver for this kernel.
      type: list
      elements: str
      returned: always
    kernel_headers:
      description: Whether DKMS can build for this kernel.
      type: bool
      returned: always
    command_line:
      description: That of the running kernel.
      type: str
      returned: always
    boot_arguments:
      description: What the boot loader has for the next one (EL only).
      type: str
      returned: always
    units:
      description: By unit that was asked for, its state.
      type: dict
      returned: always
    digests:
      description: By file that was asked for, its SHA-256, empty if it is not there.
      type: dict
      returned: always
    marks:
      description: Files that fit O(marks).
      type: list
      elements: str
      returned: always
    sysctl:
      description: By setting that was asked for, what the kernel has.
      type: dict
      returned: always
    set_elsewhere:
      description: Settings in files that are read after ours, as key, value and file.
      type: list
      elements: list
      returned: always
    fabric_states:
      description: What the GPUs say of their NVLink fabric.
      type: list
      elements: str
      returned: always
    mig_as_declared:
      description: Whether MIG is as declared; none where it was not asked.
      type: bool
      returned: always
    stream:
      description: Module stream of dnf that is enabled.
      type: str
      returned: always
    ledger:
      description: >-
        What C(/etc/gpufleet/converged.json) says, in the form of
        RV(gpufleet.bringup.node_plan_info#module:plan.ledger_after); none where there is none.
      type: dict
      returned: always
"""

import importlib.util
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.respawn import has_respawned, probe_interpreters_for_module, respawn_module

from ansible_collections.gpufleet.bringup.plugins.module_utils import host_packages, host_state

_TEXTS = ("mig_config", "preferences", "stream", "kernel_root")
# Where EL keeps the Python that its own tools run with; ansible.builtin.dnf looks in the same places.
_SYSTEM_PYTHONS = ("/usr/libexec/platform-python", "/usr/bin/python3")
_LISTS = ("packages", "paths", "marks", "sysctl", "units", "simulate")


def state_of_host(options: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was asked for.

    Raises:
        OSError: the package manager does not answer.
        ValueError: the ledger of earlier runs cannot be read.
    """
    found = host_state.system(options["kernel_root"])
    family = found["family"]
    state = {
        **found,
        **host_state.driver(options["kernel_root"], found["kernel"]),
        "packages": host_packages.packages(family, options["packages"]),
        "duplicates": host_packages.duplicates(family, options["packages"]),
        "locks_off": host_packages.locks_off(family),
        "unfinished": host_packages.unfinished(family) if options["packages"] else [],
        "units": host_state.units(options["units"]),
        "digests": host_state.digests(options["paths"]),
        "marks": host_state.marks(options["marks"]),
        "sysctl": host_state.sysctl(options["sysctl"]),
        "set_elsewhere": host_state.set_elsewhere(options["sysctl"]),
        "stream": host_packages.enabled_stream() if family == "redhat" else "",
        "ledger": host_state.ledger(),
    }
    if state["loaded_driver"]:
        state["fabric_states"] = host_state.fabric_states()
        state["device_users"] = host_state.device_users(options["kernel_root"])
    if options["mig_config"]:
        state["mig_as_declared"] = host_state.mig_as_declared(options["mig_config"])
    if options["simulate"]:
        state["simulation"] = host_packages.simulate(
            family, options["simulate"], options["preferences"], options["stream"]
        )
    return state


def python_of_dnf(family: str) -> str:
    """Return the interpreter that has dnf's library, empty if this one will do or none has it.

    Ansible takes the newest Python of a host; that of EL's dnf is the one that the release came with.
    """
    if family != "redhat" or has_respawned() or importlib.util.find_spec("dnf"):
        return ""
    return probe_interpreters_for_module(_SYSTEM_PYTHONS, "dnf") or ""


def main() -> None:
    """Look, and return what was found."""
    spec = {name: {"type": "list", "elements": "str", "default": []} for name in _LISTS}
    spec.update(
        {name: {"type": "str", "default": ""} for name in ("mig_config", "preferences", "stream", "kernel_root")}
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if module.params["simulate"]:
        python = python_of_dnf(host_state.system(module.params["kernel_root"])["family"])
        if python:
            respawn_module(python)
    try:
        state = state_of_host(module.params)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the host could not be read: {error}")
    else:
        module.exit_json(changed=False, state=state)


if __name__ == "__main__":
    main()
