# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL's log lines prove about the transport of one host in one run: RDMA, GPUDirect, the adapters of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...hardware.sku import Sku
from ...probe.nccl_debug import HostLog
from ..benchmark.network import FILTERED_FABRICS
from ..kit.ways import MIXED, NETWORK, NOT_SHOWN, NVLINK, SOCKETS, USED
from .model import Plan, PlannedHost, Run
from .settings import NetworkFacts

Proof = Literal["proven", "broken", "elsewhere", "unproven"]


@dataclass(frozen=True, slots=True)
class Transport:
    """What a log proves about the transport of a host.

    Attributes:
        proof: `proven`; `broken`, with cause, text and hint; `elsewhere`: the other host is the cause; `unproven`.
        cause: slug.
        text: one sentence.
        hint: what to do.
    """

    proof: Proof
    cause: str = ""
    text: str = ""
    hint: str = ""


_HINTS = {
    "rdma-resource-missing": "let the network operator or device plugin offer adapters to pods, "
    "or name the resource (settings of fabric_validation: rdma_resource)",
    "hca-filter-no-match": "compare `ls /sys/class/infiniband` on the host with the plan's adapters "
    "(settings of fabric_validation: hcas)",
    "net-plugin-missing": "use an image with the fabric's NCCL plugin, or put its directory into LD_LIBRARY_PATH",
    "net-plugin-broken": "put that library into the image, beside the plugin that needs it",
    "verbs-missing": "use an image with libibverbs",
    "memlock-limit": "raise the limit of locked memory (ulimit -l unlimited in the container runtime's unit)",
    "memory-registration-failed": "where `ulimit -l` of the container is limited, raise it; else compare the kernel's "
    "release and CmaTotal of /proc/meminfo with hosts that are well, and change kernel or driver",
    "gpudirect-missing": "load nvidia-peermem or enable DMA-BUF, switch ACS off, and look at `nvidia-smi topo -m`; "
    "in a VM that hides its PCIe tree state NCCL_TOPO_FILE or NCCL_NET_GDR_LEVEL=SYS (settings: env)",
    "hca-set-differs": "compare the adapters in the container with the cabling plan; NCCL_IB_HCA must name these only",
    "wrong-network": "look which NCCL network plugin the image loads",
    "socket-transport": "read the lines NET/ of the log",
}


def transport_of(run: Run, host: PlannedHost, plan: Plan, sku: Sku) -> Transport:
    """Return what the log of a run between hosts proves about one of them."""
    log = host_log(run, host.name)
    if log is None:
        return Transport("unproven", text="no line of NCCL about this host in the log")
    facts = plan.settings.networks.get(sku.fabric, NetworkFacts(names=(), plugin=False))
    broken = _memlock(log, run) or _network(log, host, plan, facts) or _adapters(log, run, host, sku)
    if broken is not None:
        return broken
    channels = log.network_channels
    if any(channel.network == "Socket" for channel in channels) and facts.names != ("Socket",):
        return Transport("elsewhere", text="its channels use TCP because of the other host")
    if plan.settings.judge.gpudirect and facts.names != ("Socket",):
        return _gpudirect(log)
    if facts.names == ("Socket",):
        return _plain_tcp(log, sku)
    return Transport("proven", text=_words(log))


def _plain_tcp(log: HostLog, sku: Sku) -> Transport:
    """Return the proof for a SKU without a fabric: TCP is expected, and nothing is claimed about RDMA."""
    if not log.networks and not log.network_channels:
        return Transport("unproven", text="no line says which network NCCL used")
    return Transport("proven", text=f"{_words(log)}; {sku.name} has no fabric with RDMA, so none is asked for")


def host_log(run: Run, host: str) -> HostLog | None:
    """Return the lines about a host. None: no line has the host's name."""
    if run.debug is None:
        return None
    return next((run.debug.hosts[name] for name in run.machines.get(host, ()) if name in run.debug.hosts), None)


def between_hosts(run: Run) -> str:
    """Return what the log of a run of several hosts proves to have carried the data between them.

    All ranks in one NVLink clique (`MNNVL 1 ... cliqueSize` of NVIDIA/nccl, src/mnnvl.cc) prove NVLink. Without such a
    clique each host must show its connections through a network. A single one over TCP makes the result TCP.
    """
    logs = [host_log(run, name) for name in run.record.hosts]
    if run.debug is None or any(log is None for log in logs) or len(logs) < 2:
        return NOT_SHOWN
    here = [log for log in logs if log is not None]
    networks = [{channel.network for channel in log.network_channels} for log in here]
    clique = run.debug.clique_size
    if clique is not None and clique > run.record.ranks / len(logs):
        return NVLINK if clique == run.record.ranks and not any(networks) else MIXED
    if any(log.uses_socket for log in here) or any("Socket" in found for found in networks):
        return SOCKETS
    if any(channel.via == "P2P/MNNVL" for log in here for channel in log.channels):
        return MIXED
    return NETWORK if all(networks) else NOT_SHOWN


def nvls_of(run: Run) -> str:
    """Return whether the log of a run proves that NVLink switches reduced at the largest size (NVLS)."""
    shown = run.debug is not None and run.debug.nvls and run.algorithm in ("nvls", "nvlstree")
    return USED if shown else NOT_SHOWN


def nvls_offered(run: Run) -> str:
    """Return whether the GPUs could reduce in the NVLink switches, whatever NCCL chose."""
    return "offered" if run.debug is not None and run.debug.nvls_capable else NOT_SHOWN


def _broken(cause: str, text: str) -> Transport:
    return Transport("broken", cause, text, _HINTS[cause])


def _memlock(log: HostLog, run: Run) -> Transport | None:
    if "memlock" not in log.reasons or not (log.uses_socket or run.problem):
        return None
    words = next((text for text in log.warnings if "allocate memory" in text), "locked memory ran out")
    limit = run.locked_memory.get(log.host, "")
    if limit.isdecimal() or "RLIMIT_MEMLOCK" in " ".join(log.warnings):
        known = f" (ulimit -l: {limit} KiB)" if limit else ""
        return _broken("memlock-limit", f"adapters cannot lock memory{known}: {words}")
    known = "ulimit -l is unlimited" if limit else "nobody said what ulimit -l is"
    return _broken("memory-registration-failed", f"adapters cannot register memory, and {known}: {words}")


def _network(log: HostLog, host: PlannedHost, plan: Plan, facts: NetworkFacts) -> Transport | None:
    if facts.names == ("Socket",):
        return None
    if log.uses_socket:
        return _socket(log, host, plan, facts)
    strange = [name for name in log.networks if not name.startswith(facts.names)]
    if strange:
        return _broken("wrong-network", f"NCCL uses network {strange[0]}, expected {' or '.join(facts.names)}")
    return None


def _socket(log: HostLog, host: PlannedHost, plan: Plan, facts: NetworkFacts) -> Transport:
    start = f"plain TCP over {', '.join(log.sockets) or 'a socket'} instead of RDMA"
    if facts.plugin and log.missing_libraries:
        return _broken("net-plugin-broken", f"{start}: the network plugin needs {log.missing_libraries[0]}")
    requested = plan.rdma_resource or "no RDMA resource"
    # Without its plugin NCCL tries verbs, which do not know the adapters of such a fabric: `NET/IB : No device found`
    # follows.
    if facts.plugin and "no-provider" in log.reasons:
        return _broken("rdma-resource-missing", f"{start}: the plugin finds no adapter; the pod asks for {requested}")
    # NCCL looks for a plugin even if the fabric needs none, and then tries verbs.
    if "plugin-missing" in log.reasons and (facts.plugin or not {"no-device", "verbs-missing"} & set(log.reasons)):
        return _broken("net-plugin-missing", f"{start}: NCCL's network plugin was not found")
    if "verbs-missing" in log.reasons:
        return _broken("verbs-missing", f"{start}: libibverbs is not in the image")
    if log.reasons and "memlock" not in log.reasons:
        return _without_device(log, host, plan, start, requested)
    return _broken("socket-transport", f"{start}; NCCL does not say why")


def _without_device(log: HostLog, host: PlannedHost, plan: Plan, start: str, requested: str) -> Transport:
    """Return the cause if NCCL found no adapter in the pod."""
    if not plan.rdma_resource or not host.rdma_offered:
        return _broken("rdma-resource-missing", f"{start}: the pod has no adapter, it asks for {requested}")
    if log.filters:
        return _broken("hca-filter-no-match", f"{start}: no adapter matches NCCL_IB_HCA {log.filters[0]}")
    text = f"{start}: NCCL finds no adapter in the pod, though the node offers {host.rdma_offered} of {requested}"
    return Transport(
        "broken", "socket-transport", text, "`ls /dev/infiniband; ibv_devices` in a pod that asks for them"
    )


def _adapters(log: HostLog, run: Run, host: PlannedHost, sku: Sku) -> Transport | None:
    planned = run.record.hcas.get(host.name, ())
    if run.record.rail is None and sku.fabric in FILTERED_FABRICS and set(planned) != set(host.hcas):
        found = f"the run names {', '.join(planned) or 'none'}, the plan {', '.join(host.hcas) or 'none'}"
        return Transport("unproven", text=f"which adapters it was to use is not recorded: {found}")
    if not planned or not log.devices or set(planned) == set(log.devices):
        return None
    extra = [name for name in log.devices if name not in planned]
    absent = [name for name in planned if name not in log.devices]
    texts = [f"{', '.join(extra)} not of the plan"] if extra else []
    texts += [f"{', '.join(absent)} of the plan not used"] if absent else []
    return _broken("hca-set-differs", "NCCL's adapters: " + "; ".join(texts))


def _gpudirect(log: HostLog) -> Transport:
    channels = log.network_channels
    staged = [channel for channel in channels if not channel.direct]
    if staged:
        one = staged[0]
        text = f"{len(staged)} of {len(channels)} connections go through host memory, such as rank {one.source} to "
        return _broken("gpudirect-missing", f"{text}{one.target} via {one.via}/{one.device} without /GDRDMA")
    if log.direct_enabled is False and not channels:
        return _broken("gpudirect-missing", "NCCL says `GPU Direct RDMA Disabled`")
    if channels or (log.networks and log.direct_enabled):
        return Transport("proven", text=_words(log))
    return Transport("unproven", text="no channel line says which way the data went")


def _words(log: HostLog) -> str:
    network = log.networks[0] if log.networks else next((c.network for c in log.network_channels), "")
    direct = " with GPUDirect" if any(channel.direct for channel in log.network_channels) else ""
    return f"network {network}{direct}, {len(log.devices)} adapters" if log.devices else f"network {network}{direct}"
