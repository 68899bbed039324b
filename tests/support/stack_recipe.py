# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipe of tests that install a small GPU stack on a rehearsal cluster."""

from __future__ import annotations

from typing import Any


def ref(name: str, version: str, *needs: str, **values: Any) -> dict[str, Any]:
    """Return a component of the recipe."""
    return {"name": name, "namespace": name, "version": version, "dependencyRefs": list(needs), "values": values}


RECIPE: dict[str, Any] = {
    "componentRefs": [
        ref("cert-manager", "v1.17.2"),
        ref("gpu-operator", "v25.10.1", "cert-manager"),
        ref(
            "nvidia-dra-driver-gpu",
            "25.12.0",
            "gpu-operator",
            resources={"gpus": {"enabled": True}},
            gpuResourcesEnabledOverride=True,
            nvidiaDriverRoot="/run/nvidia/driver",
            controller={"affinity": None, "tolerations": [{"operator": "Exists"}]},
            kubeletPlugin={"tolerations": [{"operator": "Exists"}]},
        ),
        ref("volcano", "1.12.2", "cert-manager"),
    ],
    "deploymentOrder": ["cert-manager", "gpu-operator", "nvidia-dra-driver-gpu", "volcano"],
    "constraints": [],
}
