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
    more), each with a time limit of its own, in one module execution. C(docs/reference/tools.md) of
    the collection lists them.
  - Keeps everything they print as C(evidence/hosts/<host>.json) in the run directory on the controller, with secrets
    masked.
  - A tool that is missing, fails, hangs or prints nonsense is data and not a failed task, and so is a host that cannot
    be reached. Gate nodes judges it.
  - A tool ends with its controller, and on a host that one run loads no second one does.
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
    description:
      - Tools to run, by their names in C(docs/reference/tools.md), which are those of the evidence file.
      - All by default.
    type: list
    elements: str
  timeout:
    description: Time limit of each tool but C(dcgmi diag), seconds. By default each has its own, 60 for most.
    type: int
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
    description: Time limit of C(dcgmi diag), seconds. By default 1800.
    type: int
  around_gate:
    description:
      - Gate whose load this reading stands before or after. Only the tools that tell what a load leaves are asked then,
        without the diagnostic, and kept as C(evidence/load/<gate>/<moment>/<host>.json).
    type: str
    choices: [fabric_validation, training_acceptance, inference_acceptance, burn_in]
  moment:
    description: Whether the reading stands before or after the load of O(around_gate).
    type: str
    choices: [before, after]
  max_output_bytes:
    description: How much of each output is kept. A longer one keeps its beginning and its end and says so.
    type: int
    default: 4194304
  disturb:
    description:
      - Whether C(dcgmi diag) at level 2 or more also runs on a host whose GPUs somebody uses, with a process or a pod.
      - Without it the check answers C(other) there.
    type: bool
    default: false
  guard:
    description: Who may be disturbed, filled in by the action plugin. A task that states it is refused.
    type: dict
  requests:
    description: What to run, filled in by the action plugin from the options above. A task that states it is refused.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Collect from every GPU host
  gpufleet.bringup.host_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
  become: true

- name: Read the state of every host before NCCL loads it
  gpufleet.bringup.host_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
    around_gate: fabric_validation
    moment: before
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
  description: By tool, what became of it in a few words.
  type: dict
  returned: always
  sample:
    nvidia_smi_xml: ok, 1.2 s
    ibstat: missing
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools import run_tools


def main() -> None:
    """Run the tools and return what they did; the action plugin writes it down."""
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path", "required": True},
            "tools": {"type": "list", "elements": "str"},
            "timeout": {"type": "int"},
            "timeouts": {"type": "dict", "default": {}},
            "diag_level": {"type": "int", "default": 3, "choices": [0, 1, 2, 3, 4]},
            "diag_timeout": {"type": "int"},
            "around_gate": {
                "type": "str",
                "choices": ["fabric_validation", "training_acceptance", "inference_acceptance", "burn_in"],
            },
            "moment": {"type": "str", "choices": ["before", "after"]},
            "max_output_bytes": {"type": "int", "default": 4194304},
            "disturb": {"type": "bool", "default": False},
            "requests": {"type": "list", "elements": "dict"},
            "guard": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    if module.params["requests"] is None:
        module.fail_json(msg="requests are missing: the action plugin of the same name fills them in")
    began = time.time()
    results = run_tools(module.params["requests"], module.params["max_output_bytes"], module.params["guard"])
    # By the host's own clock, which the controller compares with its own before and after.
    module.exit_json(changed=False, tool_runs=results, clock=[began, time.time()])


if __name__ == "__main__":
    main()
