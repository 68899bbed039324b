# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The job that runs the DL unit test on one host. Pure."""

from __future__ import annotations

from functools import cache

from ...runtime.files import RECIPES
from ...workload.job import CONFIG_DIR, JobSpec
from ..benchmark.plan import BenchmarkHost, device_class
from .settings import DlUnitSettings

PROGRAM = RECIPES / "workloads" / "dl_unit"
_FILE = "dl_unit.py"
# The program ends by itself before its pod is killed, so that it can report which GPU hangs.
_SPARE_S = 30.0


@cache
def _files() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAM.glob("*.py"))}


def dl_unit_job(
    name: str, host: BenchmarkHost, gpus: int, settings: DlUnitSettings, schedule_s: float = 60.0, load_s: float = 0.0,
    load_share: float = 1.0,
) -> JobSpec:  # fmt: skip
    """Return the job with this name that tests all GPUs of a host, and then keeps them at work for `load_s` seconds."""
    timeout_s = settings.timeout_s + load_s
    limit_s = max(timeout_s - _SPARE_S, timeout_s / 2)
    options = {
        "gpus": gpus, "device": settings.device, "repeats": settings.repeats, "seed": settings.seed,
        "size": settings.size, "rate-size": settings.rate_size, "rate-s": settings.rate_s, "limit-s": limit_s,
    }  # fmt: skip
    if load_s > 0:
        options |= {"load-s": load_s, "load-share": load_share}
    words = (f"--{option}={value}" for option, value in options.items())
    return JobSpec(
        name=name,
        nodes=(host.node,),
        gpus_per_node=gpus,
        image=settings.image,
        command=("python3", f"{CONFIG_DIR}/{_FILE}", *words),
        # Devices in the order of nvidia-smi. With a workspace of one size cuBLAS gives the same bits every time.
        env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
        kind="plain-job",
        timeout_s=timeout_s,
        pull_s=settings.pull_s,
        schedule_s=schedule_s,
        gang="none",
        device_class=device_class(host),
        files=_files(),
        requests=settings.requests,
    )
