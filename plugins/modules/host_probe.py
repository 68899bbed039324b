#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module host_probe: asks the tools of a node. The action plugin of the same name keeps what they answer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_probe
short_description: Collect what the tools of a GPU host say, once
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Runs the tools that gate nodes judges on the host (C(nvidia-smi), C(dcgmi), C(lspci), C(ibstat), the kernel log and
    more), each with a time limit of its own, in one module execution.
  - Keeps everything they print as C(evidence/hosts/<host>.json) in the run directory on the controller, with secrets
    masked.
  - A tool that is missing, fails, hangs or prints nonsense is data and not a failed task, and so is a host that cannot
    be reached. Gate nodes judges it.
  - The time limit kills the whole process group of a tool. A process that hangs in the kernel cannot be killed and is
    left behind.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Looks only. C(dcgmi diag) loads the GPUs, so it is left out in check mode.
options:
  tools:
    description: Tools to run, by the names that the evidence file uses. All of them by default.
    type: list
    elements: str
    choices:
      - lspci
      - ibstat
      - kernel_log
      - chronyc
      - uname
      - os_release
      - fabric_manager
      - ofed_info
      - nvidia_smi_xml
      - nvidia_smi_topo
      - nvidia_smi_nvlink
      - dcgmi_diag
  timeout:
    description: Time limit of each tool but C(dcgmi diag), seconds.
    type: int
    default: 60
  timeouts:
    description: Time limits of single tools, seconds by tool. They win over O(timeout) and O(diag_timeout).
    type: dict
    default: {}
  diag_level:
    description:
      - Level of C(dcgmi diag). Level 3 takes about 15 minutes and needs the GPUs to itself.
      - V(0) leaves it out. The check then answers C(other).
    type: int
    default: 3
    choices: [0, 1, 2, 3, 4]
  diag_timeout:
    description: Time limit of C(dcgmi diag), seconds.
    type: int
    default: 1800
  max_output_bytes:
    description: How much of each output is kept. A longer one keeps its beginning and its end and says so.
    type: int
    default: 4194304
"""

EXAMPLES = r"""
- name: Collect from every GPU host
  gpufleet.bringup.host_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
  become: true

- name: Collect without the diagnostic, and give a slow driver more time
  gpufleet.bringup.host_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
    diag_level: 0
    timeouts:
      nvidia_smi_xml: 180
  become: true
"""

RETURN = r"""
reached:
  description: Whether the host was reached and the probe ran.
  type: bool
  returned: always
reason:
  description: Why the host was not reached, empty if it was.
  type: str
  returned: always
  sample: ""
evidence:
  description: Where everything that was collected is kept, relative to the run directory.
  type: str
  returned: always
  sample: evidence/hosts/gpu01.json
tools:
  description: What became of each tool, in a few words.
  type: dict
  returned: always
  sample:
    nvidia_smi_xml: ok, 1.2 s
    ibstat: missing
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools import TOOLS, run_tools


def _limits(module: AnsibleModule) -> dict[str, float]:
    limits: dict[str, float] = {}
    for name, value in module.params["timeouts"].items():
        try:
            limits[name] = float(value)
        except (TypeError, ValueError):
            limits[name] = 0.0
        if name not in TOOLS or limits[name] <= 0:
            module.fail_json(
                msg=f"timeouts: {name}: {value!r} is no tool with a number of seconds. Tools: {', '.join(TOOLS)}"
            )
    return limits


def main() -> None:
    """Run the tools and return what they did; the action plugin writes it down."""
    positive = {"type": "int"}
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path", "required": True},
            "tools": {"type": "list", "elements": "str", "choices": list(TOOLS)},
            "timeout": {**positive, "default": 60},
            "timeouts": {"type": "dict", "default": {}},
            "diag_level": {"type": "int", "default": 3, "choices": [0, 1, 2, 3, 4]},
            "diag_timeout": {**positive, "default": 1800},
            "max_output_bytes": {**positive, "default": 4194304},
        },
        supports_check_mode=True,
    )
    options: dict[str, Any] = module.params
    for name in ("timeout", "diag_timeout", "max_output_bytes"):
        if options[name] <= 0:
            module.fail_json(msg=f"{name} is {options[name]}, expected more than 0")
    results = run_tools(
        options["tools"] if options["tools"] is not None else list(TOOLS),
        timeout_s=options["timeout"],
        timeouts=_limits(module),
        diag_level=0 if module.check_mode else options["diag_level"],
        diag_timeout_s=options["diag_timeout"],
        max_output_bytes=options["max_output_bytes"],
    )
    module.exit_json(changed=False, tool_runs=results)


if __name__ == "__main__":
    main()
