# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Constraints as a resolved recipe has them, the measurements that they may name, and whether they can be judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..outcome.errors import InputError
from .evaluate import Constraint, Quantifier, Severity, parse_expression, parse_version, satisfies

# Constraints as a resolved recipe has them.


def declared_constraint(entry: Mapping[str, Any]) -> Constraint:
    """Return an entry of a recipe's constraints.

    Raises:
        InputError: it is not a constraint.
    """
    try:
        return Constraint(
            name=str(entry["name"]),
            value=str(entry["value"]),
            severity=Severity(entry.get("severity") or "error"),
            remediation=str(entry.get("remediation") or ""),
            unit=str(entry.get("unit") or ""),
            nodes=Quantifier(entry.get("nodes") or ""),
        )
    except (KeyError, ValueError) as error:
        raise InputError(
            "recipe constraints", f"{entry!r} is not a constraint: {error}.", "correct the recipe"
        ) from None


# Measurements of a cluster that a recipe's constraints may name (upstream's names: `Type.Subtype.Key`).

SERVER_VERSION = "K8s.server.version"
OS_ID = "OS.release.ID"
OS_VERSION = "OS.release.VERSION_ID"
KERNEL_RELEASE = "OS.sysctl./proc/sys/kernel/osrelease"
# Read from the nodes of a running stack, see recipe/measured.py.
MEASURED = (SERVER_VERSION, OS_ID, OS_VERSION, KERNEL_RELEASE)

GPU_NODE_LABEL = "NodeTopology.gpu-nodes.label"
OPERATOR_VERSION = "Deployment.gpu-operator.version"
DRIVER_VERSION = "Deployment.gpu-driver.version"
SERVER = tuple(f"K8s.server.{key}" for key in ("version", "platform", "goVersion"))
LABEL_COUNT = "NodeTopology.summary.label-count"
TOPOLOGY = ("NodeTopology.summary.node-count", "NodeTopology.summary.taint-count", LABEL_COUNT)
# Variables of /etc/os-release (freedesktop.org, os-release(5)) that identify a system.
OS_RELEASE = tuple(
    f"OS.release.{key}"
    for key in (
        "ID", "ID_LIKE", "NAME", "PRETTY_NAME", "VERSION", "VERSION_ID", "VERSION_CODENAME", "BUILD_ID",
        "VARIANT", "VARIANT_ID", "PLATFORM_ID", "CPE_NAME",
    )
)  # fmt: skip
NODE = tuple(
    f"K8s.node.{key}"
    for key in (
        "provider", "provider-id", "container-runtime-id", "container-runtime-name", "container-runtime-version",
        "kubelet-version", "kernel-version", "operating-system", "os-image",
    )
)  # fmt: skip
# Only a provider reports these (NVIDIA/aicr pkg/collector/k8s), by part of a snapshot.
OF_PARTS = {
    "aks-gpu-pools": ("gpu-driver", "gpu-pools", "gpu-pool-count"),
    "gke-gpu-pools": ("gpu-driver-installation", "gpu-pools", "gpu-pool-count"),
    "oke-addons": ("nvidia-gpu-plugin", "addon-count"),
}
PROVIDER = tuple(f"K8s.{part}.{key}" for part, keys in OF_PARTS.items() for key in keys)
# The device plugin that OKE installed before it had add-ons, which its list of add-ons does not include.
OKE_LEGACY_PLUGIN = "K8s.oke-legacy-plugin.nvidia-gpu-device-plugin"
GPU = tuple(f"GPU.smi.{key}" for key in ("driver", "cuda-version", "gpu-count", "gpu.model", "gpu.vbios-version"))
# The rest of the name belongs to the cluster: a parameter, a module, an image.
OPEN = ("OS.sysctl./proc/sys/", "OS.grub.", "OS.kmod.", "SystemD.", "K8s.image.", "K8s.policy.")
# Known only after the components are installed, or after the load.
OF_DEPLOYMENT = (OPERATOR_VERSION, DRIVER_VERSION)
OF_PERFORMANCE = (
    "nccl-all-reduce-bw",
    "nccl-all-reduce-bw-net",
    "nccl-all-reduce-bw-nvls",
    "nccl-cre-all-reduce-bw",
    "inference-throughput",
    "inference-ttft-p99",
)
# Benchmark parameters for which the bounds of a recipe hold (NVIDIA/aicr recipes/validators/catalog.yaml, and the
# performance sections of its overlays). They are compared with the parameters of our run.
OF_BENCHMARK = ("inference-model", "inference-concurrency-per-gpu")
# The same for parts that only upstream's own benchmarks have: router, cache, templates.
OF_OTHER_BENCHMARKS = (
    "inference-routing-mode",
    "inference-model-cache-storage-class",
    "nccl-benchmark-profile",
    "nccl-benchmark-runtime-ref",
)
OF_CLUSTER = (
    *SERVER,
    *TOPOLOGY,
    *OS_RELEASE,
    *NODE,
    *GPU,
    *PROVIDER,
    OKE_LEGACY_PLUGIN,
    KERNEL_RELEASE,
    GPU_NODE_LABEL,
)
# By phase of validation the names that its constraints may use beyond those of a snapshot.
OF_PHASE = {"deployment": OF_DEPLOYMENT, "performance": (*OF_PERFORMANCE, *OF_BENCHMARK, *OF_OTHER_BENCHMARKS)}
_LIKE = 0.8


def is_measurable(name: str, phase: str = "") -> bool:
    """Tell whether that name can be measured in a snapshot, or in that phase of validation."""
    if name in OF_CLUSTER or name in OF_PHASE.get(phase, ()):
        return True
    return any(name.startswith(prefix) and len(name) > len(prefix) for prefix in OPEN)


def unknown_name(name: str, phase: str = "") -> str:
    """Return a hint for a name that nothing measures; empty for a name that can be measured.

    Args:
        name: of a constraint.
        phase: the phase of validation that has it; empty for the recipe's own constraints.
    """
    if is_measurable(name, phase):
        return ""
    belongs = next((other for other, names in OF_PHASE.items() if name in names), "")
    if belongs:
        return f"It is measured in phase {belongs}: write it below validation.{belongs}.constraints."
    near = _nearest(name, (*OF_CLUSTER, *OF_PHASE.get(phase, ()), *OPEN))
    return f"Did you mean {near!r}?" if near else f"Measured are {', '.join(MEASURED)} and more, see docs/validate.md."


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    folded = {entry.casefold(): entry for entry in known}
    near = get_close_matches(name.casefold(), folded, 1, _LIKE)
    return folded[near[0]] if near else ""


# Whether a constraint can ever be judged as written, before anything is measured.

# Operators of other tools, which our parser would take for text.
_FOREIGN_OPERATOR = re.compile(r"\s*(=>|=<|=(?!=)|~>|~=|~|\^|<>|!(?!=))")
_ORDERS = (">=", "<=", ">", "<")


def wrong_value(constraint: Constraint) -> str:
    """Return what is wrong with the value of a constraint, empty if nothing is."""
    if constraint.name == GPU_NODE_LABEL:
        # A label, or with `!` its absence. It is no expression.
        return "" if constraint.value.removeprefix("!").strip() else f"{constraint.value!r} names no label."
    foreign = _FOREIGN_OPERATOR.match(constraint.value)
    if foreign:
        return (
            f"{constraint.value!r} begins with {foreign[1]}, which is no operator; there are >=, <=, >, <, ==, !=, in."
        )
    try:
        for condition in parse_expression(constraint.value).conditions:
            if constraint.unit:
                # Compared with itself, to see whether value and unit can be parsed.
                for value in condition.values:
                    satisfies(value, value, constraint.unit)
            elif condition.operator in _ORDERS:
                parse_version(condition.value)
    except InputError as error:
        return f"{constraint.value!r} can be compared with nothing: {error.subject} {error.reason}"
    return ""
