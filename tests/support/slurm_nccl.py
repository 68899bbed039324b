# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs of gate fabric_validation start on the fake nodes of a real Slurm: a program that prints what nccl-tests
and NCCL would. On two hosts that is what nccl-tests printed on two BM.GPU.H100.8 of OCI (oracle-quickstart/oci-hpc,
documentation/Troubleshooting.md), with NCCL's lines before it."""

from __future__ import annotations

from pathlib import Path

from dl_unit_lines import lines_of, text_of
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

SKU = "bm-gpu-h100-8"
CAPTURE = "captures/nccl-tests/allreduce-2node-h100-oci-roce.txt"
# As nccl-tests called the two machines of the capture.
MACHINES = ("h100-ord01-03-14", "h100-ord01-03-294")
SMALLEST = 1 << 30
_GPUS = 8
# All nodes are this machine, which goes by the name of each.
_UNAME = '#!/bin/sh\n[ "$*" = -n ] || exec /usr/bin/uname "$@"\necho "$SLURMD_NODENAME.cluster"\n'
# It refuses what it was not to be told, and starts what is there; a program that is a script prints for all ranks.
_MPIRUN = """#!/bin/sh
echo "$SLURMD_NODENAME ${SLURM_JOB_ID:-none} $*" >> "@here/began"
case " $* " in
  *" -np 8 --host localhost:8 "*) [ -z "${SLURM_JOB_ID:-}" ] || exit 91 ;;
  *" --map-by ppr:8:node "*) [ "$SRUN_CPUS_PER_TASK" = "$SLURM_CPUS_ON_NODE" ] || exit 92 ;;
  *) exit 93 ;;
esac
while [ "$1" != -x ]; do shift; done
while [ "$1" = -x ]; do shift 2; done
exec "$@"
"""
_NCCL = """#!/bin/sh
nodes="${SLURM_JOB_NODELIST:-$SLURMD_NODENAME}"
[ "${SLURM_PROCID:-0}" = 0 ] || exit 0
[ -f "@here/$SLURMD_NODENAME" ] && . "@here/$SLURMD_NODENAME"
set -- $(scontrol show hostnames "$nodes")
kind=$#
[ -z "${NCCL_TESTS_SPLIT:-}" ] || kind=adapters
sed -e "s/@1/$1/g" -e "s/@2/${2:-}/g" -e "s/@3/${3:-}/g" -e "s/@4/${4:-}/g" "@here/nccl-$kind"
"""


class NcclPrograms:
    """Programs in `bin`, which jobs find by the PATH of their controller, and `program`, which ranks are."""

    def __init__(self, here: Path, shared: Path, hardware: dict[str, Sku], slurm_bin: Path) -> None:
        self.here, self.bin, self.program = here, here / "programs", str(here / "all_reduce_perf")
        self.bin.mkdir(parents=True)
        self.path = f"{self.bin}:{slurm_bin}:/usr/bin:/bin"
        names = ("a", "b", "c", "d")
        ports = " ".join(f"[{n}]{name}:1/RoCE" for n, name in enumerate(hardware[SKU].hca_names or ()))
        well = f"NET/IB : Using {ports} [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\n"
        well += "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
        fleet = Fleet(names, hardware, sku=SKU, says=dict.fromkeys(names, well), noise=0.0)
        self.well = "".join(f"@{n}:1:1 [0] NCCL INFO {line}\n" for n in (1, 2) for line in well.splitlines())
        pair = (shared / CAPTURE).read_text()
        for number, machine in reversed(list(enumerate(MACHINES, 1))):
            pair = pair.replace(f"{machine} ", f"@{number} ").replace(f"{machine}\n", f"@{number}\n")
        texts = {
            "1": fleet.log(Wanted(phase="node", hosts=names[:1]), SMALLEST),
            "2": self.well + pair,
            "adapters": fleet.log(Wanted(phase="adapters", hosts=names[:2]), fleet.plan().settings.run.rail_smallest),
            "4": fleet.log(Wanted(phase="all", hosts=names), SMALLEST),
        }
        for name, text in texts.items():
            for number, host in enumerate(names, 1):
                text = text.replace(f"{host}-pod", f"@{number}")
            (here / f"nccl-{name}").write_text(text)
        (here / "dl_unit").write_text(text_of(lines_of(_GPUS)))
        self._put(self.bin / "uname", _UNAME)
        self._put(self.bin / "mpirun", _MPIRUN)
        self._put(self.bin / "python3", f'#!/bin/sh\ncat "{here}/dl_unit"\n')
        self._put(Path(self.program), _NCCL)

    def _put(self, path: Path, text: str) -> None:
        path.write_text(text.replace("@here", str(self.here)))
        path.chmod(0o755)

    def does(self, node: str, text: str) -> None:
        """Say what happens on a node before its ranks print anything."""
        (self.here / node).write_text(f"{text}\n")

    def began(self) -> list[str]:
        """Return what mpirun was told, each with its node and job."""
        path = self.here / "began"
        return path.read_text().splitlines() if path.is_file() else []
