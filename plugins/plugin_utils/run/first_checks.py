# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The checks of every release that did not write down what its gates declared (declared.json): those of the first one.

A run of such a release has results of them. Others may be newer than the run; these may not.
"""

from __future__ import annotations

FIRST_CHECKS = frozenset((
    "alert-delivery", "api-permissions", "cabling", "clock-sync", "cluster-policy-ready", "component-health",
    "dcgm-diag", "dra-allocation", "dra-slices", "driver-uniform", "fabric-manager", "facility-cooling",
    "facility-evidence", "facility-expiry", "facility-floor-load", "facility-pdus", "facility-power",
    "facility-signature", "gang-admission", "gpu-allocatable", "gpu-census", "gpu-ecc", "gpu-metrics-complete",
    "gpu-metrics-fresh", "gpu-metrics-known", "gpu-metrics-scraped", "gpu-metrics-unique", "gpu-pcie-link",
    "gpu-recovery-action", "gpu-row-remap", "hca-state", "host-reached", "inference-endpoint-ready",
    "inference-errors", "inference-smoke", "inference-throughput", "inference-tpot", "inference-ttft",
    "kernel-uniform", "kernel-xid", "link-errors", "link-present", "link-rate", "mig-mode", "nccl-all-nodes-bw",
    "nccl-intra-node-bw", "nccl-pair-bw", "nccl-results", "nccl-transport", "node-ready", "nvlink",
    "ofed-uniform", "os-uniform", "pci-census", "recipe-constraints", "subnet-manager", "topology",
    "training-completed", "training-gang-start", "training-loss", "training-mfu", "training-step-time",
    "training-stragglers",
))  # fmt: skip
