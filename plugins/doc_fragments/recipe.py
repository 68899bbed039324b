# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a recipe is asked with."""

from __future__ import annotations


class ModuleDocFragment:
    """The options that name a recipe: criteria, the catalogue, and what the user sets."""

    DOCUMENTATION = r"""
options:
  criteria:
    description:
      - What kind of cluster it is, such as C(service), C(accelerator), C(intent), C(os), C(platform), C(fabric),
        C(nvlink_domain).
      - At least one must be stated.
    type: dict
    default: {}
  recipe_data:
    description:
      - Directories of private recipe data, laid over the catalogue of this collection; a later one wins.
      - A directory with a C(overlays/base.yaml) of its own stands alone, with those after it.
    type: list
    elements: path
    default: []
  skus:
    description:
      - SKUs of the GPU hosts, as C(gpufleet_sku) names them. What their facts say alike of C(accelerator),
        C(fabric) and C(nvlink_domain) counts where it is not stated and a layer honours it, as in a run over them.
      - One of these criteria that is stated and that none of them has is an error.
    type: list
    elements: str
    default: []
  facts:
    description:
      - Facts of a running cluster. Criteria that are not stated are read off them, each with its evidence.
      - A stated criterion wins; a warning says if the cluster says something else.
    type: dict
    suboptions:
      server_version:
        description: Version of the API server.
        type: str
        default: ""
      nodes:
        description: The nodes.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the node.
            type: str
            required: true
          gpus:
            description: Number of its GPUs.
            type: int
            default: 0
          gpu_product:
            description: Product name of its GPUs, as GPU Feature Discovery labels it.
            type: str
            default: ""
          os_id:
            description: C(ID) of its C(/etc/os-release).
            type: str
            default: ""
          provider_id:
            description: C(spec.providerID).
            type: str
            default: ""
          instance_type:
            description: Instance type of the cloud.
            type: str
            default: ""
          labels:
            description: Its labels.
            type: dict
            default: {}
          resources:
            description: Names of its allocatable resources.
            type: list
            elements: str
            default: []
          link_layers:
            description: Link layers of its network adapters, such as C(InfiniBand).
            type: list
            elements: str
            default: []
  snapshot:
    description:
      - Where a snapshot lies whose nodes are such facts, a file, an https address or C(cm://namespace/name), one of
        the NVIDIA tool as well; V(cluster) looks at the nodes of the cluster itself.
    type: str
  profiles:
    description: Chosen values of the profiles that layers leave to the user, such as who owns the driver.
    type: dict
    default: {}
  overrides:
    description: Chart values by component, over those of every layer. C(enabled=false) leaves a component out.
    type: dict
    default: {}
  set:
    description: The same as C(component:path=value), typed as in YAML.
    type: list
    elements: str
    default: []
  check_overrides:
    description: Refuse overrides that the component is not known to have, or of another type.
    type: bool
    default: true
  unsupported:
    description: >-
      What to do if no layer honours one of the criteria. With V(warn) less specific layers are used and a warning
      says so.
    type: str
    choices: [error, warn]
    default: error
"""
