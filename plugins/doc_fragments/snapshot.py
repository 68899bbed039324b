# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of modules that take a snapshot."""

from __future__ import annotations


class ModuleDocFragment:
    """Options run_dir, node_pods, node_image, runtime_class, node_tolerations, provider, helm and timeout_s."""

    DOCUMENTATION = r"""
options:
  run_dir:
    description:
      - A run whose gate nodes read the hosts over SSH; what they said (driver, CUDA, MIG, kernel, modules, adapters)
        becomes part of the snapshot.
      - Without it, and without O(node_pods), hosts are no part of the snapshot, and it says so.
    type: path
  node_pods:
    description:
      - Which nodes that no run read are asked by a short-lived pod on each, those with GPUs (V(gpu)) or V(all). For
        nodes that have neither SSH nor Python.
      - The pods are made in a namespace of their own, which is removed; the cluster is held meanwhile. In check mode
        none is made.
    type: str
    choices: [none, gpu, all]
    default: none
  node_image:
    description: Image of these pods, any with a shell and grep. By default that of the tests of gate gpu_stack.
    type: str
    default: ""
  runtime_class:
    description:
      - RuntimeClass of these pods, if it brings the tools of the GPU driver (V(nvidia)). Then CUDA, MIG and ECC are
        read as well.
      - Without one the driver's release and each GPU's product, UUID and VBIOS are read, for which the driver need not
        be asked.
    type: str
    default: ""
  node_tolerations:
    description:
      - Taints of the site's nodes that these pods tolerate, as V(key=value:effect), value and effect optional. Those
        that platforms put on GPU nodes (recipes/workloads/tolerations.yaml) are tolerated anyway.
    type: list
    elements: str
    default: []
  provider:
    description:
      - What the provider's own tools list of the cluster, as V(PART=FILE). Parts are V(aks-gpu-pools) (of C(az aks
        nodepool list -o json)), V(gke-gpu-pools) (of C(gcloud container node-pools list --format=json)) and
        V(oke-addons) (of C(oci ce cluster list-addons --all --output json)).
      - Kept are the pools with GPUs and who installs their driver, and the state of Oracle's device plugin, for the
        constraints V(K8s.aks-gpu-pools.gpu-driver), V(K8s.gke-gpu-pools.gpu-driver-installation) and
        V(K8s.oke-addons.nvidia-gpu-plugin).
    type: list
    elements: str
    default: []
  helm:
    description: The helm program, for the releases. Without one that collector fails, and is named.
    type: str
    default: helm
  timeout_s:
    description: Seconds that a collector may take, and each tool in a pod.
    type: float
    default: 30
"""
