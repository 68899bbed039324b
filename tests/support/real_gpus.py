# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What our own programs and real tools printed on real GPUs (tests/data/README.md says where and when)."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

ARCHIVE = Path(__file__).resolve().parents[1] / "data" / "real_gpus.tar.xz"


@cache
def _texts() -> dict[str, str]:
    with tarfile.open(ARCHIVE) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def printed(name: str) -> str:
    """Return one of the files of the archive."""
    return _texts()[name]


def with_one_gpu(sku: Sku) -> Sku:
    """Return a virtual machine to which one GPU of such a host is passed through."""
    return replace(
        sku, name=f"vm-{sku.accelerator}", gpus=1, nvlink_links=0, nvlink_generation=None, nvswitches=0,
        nvlink_domain_gpus=1, compute_hcas=0, hca_rate_gbps=0, hca_names=(), hca_model="", fabric="none",
    )  # fmt: skip
