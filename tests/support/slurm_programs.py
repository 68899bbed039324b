# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of idle nodes run on the fake nodes of a real Slurm: the real fio, and programs that print what PyTorch
and NCCL would; on each node they do first what a test says of it."""

from __future__ import annotations

import os
from pathlib import Path

from dl_unit_lines import lines_of, text_of
from nccl_fleet import Fleet
from simulated_training import hardware

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.storage.programs import ensure_fio
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

_RANKS = 8
_CHANNELS = "\n".join(
    f"Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % _RANKS}[{(rank + 1) % _RANKS}] [send] via NET/IB/{rank}/GDRDMA"
    for rank in range(_RANKS)
)
_DEVICES = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(_RANKS))
_WELL = f"NET/IB : Using {_DEVICES} [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\n{_CHANNELS}"
# Both are given what the product's own script gives them; mpirun refuses what it was not to be told.
_STAND_IN = """#!/bin/sh
echo "$SLURM_JOB_ID {program} $$" >> "{here}/began-$SLURMD_NODENAME"
[ -f "{here}/$SLURMD_NODENAME" ] && . "{here}/$SLURMD_NODENAME"
{body}
"""
_MPIRUN = """[ -z "${SLURM_JOB_ID:-}" ] || exit 91
case " $* " in *" -np 8 --host localhost:8 "*" -x NCCL_P2P_DISABLE "*"/all_reduce_perf -b "*) ;; *) exit 92 ;; esac
[ "$NCCL_P2P_DISABLE$NCCL_SHM_DISABLE$NCCL_NVLS_ENABLE" = 110 ] || exit 93
name=$(uname -n)
"""


class _Loop(Fleet):
    def speed(self, want: Wanted) -> float:
        return 50.0 * 0.95


class SlurmPrograms:
    """Programs in `bin`, which jobs find by the PATH of their controller. `does` gives what the shell of a node does
    before its test of arithmetic; `$log` is the log of its job."""

    def __init__(self, here: Path) -> None:
        self.here, self.bin = here, here / "programs"
        self.bin.mkdir(parents=True)
        self.volume = here / "volume"
        self.volume.mkdir()
        (here / "dl_unit").write_text(text_of(lines_of(_RANKS)))
        loop = _Loop(("gpu01",), hardware(), says={"gpu01": _WELL}, noise=0.0)
        smallest = loop.plan().settings.run.rail_smallest
        (here / "nccl").write_text(loop.log(Wanted(phase="loop", hosts=("gpu01",)), smallest).replace("gpu01-pod", "@"))
        self._put("python3", _STAND_IN.format(here=here, program="dl_unit", body=f'cat "{here}/dl_unit"'))
        self._put("mpirun", f'#!/bin/sh\n{_MPIRUN}sed "s/@/${{name%%.*}}/g" "{here}/nccl"\n')
        fio = ensure_fio(default_cache(os.environ), Progress(print))
        self._put("fio", f"#!/bin/sh\nexport LD_LIBRARY_PATH='{fio.libraries}'\nexec '{fio.path}' \"$@\"\n")

    def _put(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def does(self, node: str, text: str) -> None:
        """Say what happens on a node when its arithmetic is tested."""
        (self.here / node).write_text(f"log=$PWD/job.log\n{text}\n")

    def began(self, node: str) -> list[list[str]]:
        """Return job, program and process of every test of arithmetic that began on a node."""
        path = self.here / f"began-{node}"
        return [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
