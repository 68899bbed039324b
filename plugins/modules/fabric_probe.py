#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module fabric_probe: asks the InfiniBand tools of one host. The action plugin of the same name keeps the answers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_probe
short_description: Collect what InfiniBand tools say about a whole fabric
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Runs C(sminfo), C(saquery), C(iblinkinfo) and C(ibqueryerrors) on a host that is connected to the fabric, in one
    module execution. Each subnet is read twice, with O(interval) between.
  - Keeps everything they print as C(evidence/fabric/<host>.json) in the run directory on the controller.
  - Counters are read and never cleared.
  - A tool that is missing, fails or hangs is data and not a failed task. Gate fabric judges it.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
options:
  ports:
    description:
      - Ports of this host through which to look, as C(adapter:port), one in each subnet.
      - Without it the tools choose, and there is one subnet.
    type: list
    elements: str
    default: []
  around_gate:
    description:
      - The gate whose load is bracketed by two readings. Links and their counters are then read once, and kept as
        C(evidence/load/<gate>/fabric-<moment>/<host>.json).
      - It is stated with O(moment).
    type: str
    choices: [fabric_validation]
  moment:
    description: Which of the two readings it is.
    type: str
    choices: [before, after]
  interval:
    description: Seconds between the two readings. Slow growth of a counter needs a longer time to be seen.
    type: float
    default: 10
  ibdiagnet:
    description: Whether C(ibdiagnet) (ibutils2) is run, too. It reads counters and cables of the whole fabric.
    type: bool
    default: false
  extras:
    description:
      - What else is run. V(ibdiagnet_features) asks C(ibdiagnet) about adaptive routing and SHARP, V(ibswinfo) every
        switch about its fans, supplies and temperature. V(sharp_hello) makes one job of SHARP.
    type: list
    elements: str
    choices: [ibdiagnet_features, ibswinfo, sharp_hello]
    default: []
  timeout:
    description: Time limit of each tool but C(ibdiagnet), seconds. By default 120.
    type: int
  ibdiagnet_timeout:
    description: Time limit of C(ibdiagnet), seconds. By default 1800.
    type: int
  max_output_bytes:
    description: How much of each output is kept. A longer one keeps its beginning and its end and says so.
    type: int
    default: 67108864
  requests:
    description: What to run, filled in by the action plugin from the options above. A task that states it is refused.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Read the fabric through the first active port
  gpufleet.bringup.fabric_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
  become: true

- name: Read two subnets, with a minute between the readings
  gpufleet.bringup.fabric_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
    ports: ["mlx5_0:1", "mlx5_1:1"]
    interval: 60
  become: true

- name: Read links and counters after the load of gate fabric_validation
  gpufleet.bringup.fabric_probe:
    run_dir: "{{ hostvars['localhost']['gpufleet_run'] }}"
    around_gate: fabric_validation
    moment: after
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
  sample: evidence/fabric/gpu01.json
tools:
  description: By tool, what became of it in a few words.
  type: dict
  returned: always
  sample:
    sminfo: ok, 0.1 s
    iblinkinfo: ok, 1.2 s
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.bringup.plugins.module_utils.fabric_tools import run_fabric_tools


def main() -> None:
    """Run the tools and return what they did; the action plugin writes it down."""
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path", "required": True},
            "ports": {"type": "list", "elements": "str", "default": []},
            "around_gate": {"type": "str", "choices": ["fabric_validation"]},
            "moment": {"type": "str", "choices": ["before", "after"]},
            "interval": {"type": "float", "default": 10},
            "ibdiagnet": {"type": "bool", "default": False},
            "extras": {
                "type": "list",
                "elements": "str",
                "choices": ["ibdiagnet_features", "ibswinfo", "sharp_hello"],
                "default": [],
            },
            "timeout": {"type": "int"},
            "ibdiagnet_timeout": {"type": "int"},
            "max_output_bytes": {"type": "int", "default": 67108864},
            "requests": {"type": "list", "elements": "dict"},
        },
        supports_check_mode=True,
    )
    options = module.params
    if options["requests"] is None:
        module.fail_json(msg="requests are missing: the action plugin of the same name fills them in")
    results = run_fabric_tools(
        options["requests"],
        options["ports"],
        interval_s=options["interval"],
        max_output_bytes=options["max_output_bytes"],
        once=options["around_gate"] is not None,
    )
    module.exit_json(changed=False, tool_runs=results)


if __name__ == "__main__":
    main()
