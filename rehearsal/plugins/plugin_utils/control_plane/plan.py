# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A control plane on loopback as a list of processes for the supervisor."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..places import python_argv
from ..processes.spec import Probe, ProcessSpec
from . import kwok, scheduler
from .kwok import NodeSpec
from .pki import CLIENTS, Pki, make_pki, write_kubeconfig
from .ports import free_ports

_PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
_GATES = "GenericWorkload=true,GangScheduling=true"
# Without these the server keeps an image of its lists for every write of the last minutes, and compares them with etcd
# (kubernetes.io/docs/reference/command-line-tools-reference/feature-gates). A single server on one machine does not
# need that.
_CACHES = "ListFromCacheSnapshot=false,DetectCacheInconsistency=false,SizeBasedListCostEstimate=false"
_SERVICES = "10.96.0.0/16"
# A socket in the directory of the control plane, which only its owner can enter. etcd requires a port in the name.
_ETCD = "unix://etcd:1"
# Go's garbage collector runs a third as often. That saves a tenth of the CPU of these programs, and costs some hundred
# MiB and twice the memory of the API server. With many nodes memory is the limit, so the default applies. A GOGC in the
# environment, as make test sets it, overrides this.
_GOGC, _GOGC_OF_MANY, _MANY = "300", "100", 200
# One thread at a time for programs that need a tenth of a core: two threads would keep waking each other. Not for KWOK
# 0.8.0, which then keeps outdated lists of its resources (pkg/config/resources: a list may be older than the version by
# which it is kept), and not for the API server, which can use all cores.
_ONE_THREAD = ("etcd", "kube-controller-manager", "kube-scheduler")

WAVE_READY = 4
"""Processes that need the cluster with its nodes start in later waves than this one."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A planned control plane.

    - `processes`, `ports`.
    - `kubeconfig`: the administrator's.
    - `directory`: deleted at the stop.
    - `tls`: certificate and key files of servers on loopback.
    """

    processes: tuple[ProcessSpec, ...]
    ports: dict[str, int]
    kubeconfig: Path
    directory: Path
    tls: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Layout:
    directory: Path
    pki: Pki
    ports: Mapping[str, int]
    programs: Mapping[str, Path]
    nodes: int

    def kubeconfig(self, client: str) -> Path:
        return self.directory / f"{client}.kubeconfig"

    def process(self, name: str, wave: int, path: str, *flags: str) -> ProcessSpec:
        pki = self.pki
        shown = ("apiserver" if name == "etcd" else "admin") if name != "kwok" else ""
        probe = Probe(
            port=self.ports[name], path=path, ca_file=pki.ca, cert_file=pki.cert(shown) if shown else "",
            key_file=pki.key(shown) if shown else "",
        )  # fmt: skip
        argv = (str(self.programs[name]), *flags)
        env = {"GOGC": os.environ.get("GOGC") or (_GOGC if self.nodes <= _MANY else _GOGC_OF_MANY)}
        if name in _ONE_THREAD:
            env["GOMAXPROCS"] = os.environ.get("GOMAXPROCS") or "1"
        return ProcessSpec(name=name, argv=argv, wave=wave, probe=probe, env=env, cwd=str(self.directory))


def plan_control_plane(
    directory: Path, programs: Mapping[str, Path], nodes: tuple[NodeSpec, ...], stages: Path, pull_s: float = 0.0,
    *, audit: Path | None = None, taken: Collection[int] = (),
) -> ControlPlane:  # fmt: skip
    """Choose ports, create keys and configuration files, and return what to run.

    Args:
        directory: created anew, for keys, configuration and the database.
        programs: path of every program by name (etcd, kube-apiserver, ...).
        nodes: the nodes that exist and are ready once the control plane is up.
        stages: KWOK Stage documents.
        pull_s: how long test pods wait for their image.
        audit: file for the API server's audit log; None: no audit log.
        taken: ports that were chosen for other servers.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True)
    layout = _Layout(directory, make_pki(directory / "pki"), free_ports(_PORTS, taken=taken), programs, len(nodes))
    for client in CLIENTS:
        write_kubeconfig(layout.kubeconfig(client), layout.pki, client, layout.ports["kube-apiserver"])
    scheduler.write_configuration(directory / "scheduler.yaml", layout.kubeconfig("scheduler"))
    kwok.write_configuration(directory / "kwok.yaml", stages, layout.pki, layout.ports["kwok"], pull_s)
    write_atomic(directory / "nodes.json", json.dumps([to_plain(node) for node in nodes]))
    processes = (
        _etcd(layout), _apiserver(layout, audit), _controller_manager(layout), _scheduler(layout),
        _prime(layout, "crds", 2), _kwok(layout), _prime(layout, "nodes", WAVE_READY),
    )  # fmt: skip
    return ControlPlane(processes, dict(layout.ports), layout.kubeconfig("admin"), directory, _tls(layout.pki))


def _tls(pki: Pki) -> tuple[str, str]:
    return pki.cert("server"), pki.key("server")


def _etcd(layout: _Layout) -> ProcessSpec:
    pki = layout.pki
    client, peer = (f"https://127.0.0.1:{layout.ports[name]}" for name in ("etcd", "etcd-peer"))
    # Write access to etcd allows running commands through KWOK. So both ports need keys, and the client port serves
    # only health. The API server uses the socket, without encryption.
    return layout.process(
        "etcd", 0, "/health", f"--data-dir={layout.directory / 'etcd'}", "--name=rehearsal", "--unsafe-no-fsync",
        f"--listen-client-urls={_ETCD}", f"--listen-client-http-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=rehearsal={peer}",
        "--enable-grpc-gateway=false", "--client-cert-auth",
        f"--cert-file={pki.cert('server')}", f"--key-file={pki.key('server')}", f"--trusted-ca-file={pki.ca}",
        f"--peer-cert-file={pki.cert('server')}", f"--peer-key-file={pki.key('server')}", "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={pki.ca}", "--log-level=warn", "--quota-backend-bytes=4294967296",
        "--auto-compaction-mode=periodic", "--auto-compaction-retention=10m", "--snapshot-count=10000",
    )  # fmt: skip


def _apiserver(layout: _Layout, audit: Path | None) -> ProcessSpec:
    pki, ports = layout.pki, layout.ports
    audited = _audited(layout.directory, audit) if audit is not None else ()
    return layout.process(
        "kube-apiserver", 1, "/readyz", "--bind-address=127.0.0.1", f"--secure-port={ports['kube-apiserver']}",
        "--advertise-address=127.0.0.1", f"--etcd-servers={_ETCD}", f"--client-ca-file={pki.ca}",
        f"--tls-cert-file={pki.cert('server')}", f"--tls-private-key-file={pki.key('server')}",
        f"--kubelet-certificate-authority={pki.ca}", f"--kubelet-client-certificate={pki.cert('apiserver')}",
        f"--kubelet-client-key={pki.key('apiserver')}",
        "--kubelet-preferred-address-types=InternalIP", "--authorization-mode=RBAC",
        f"--service-account-key-file={pki.account_key}", f"--service-account-signing-key-file={pki.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-cluster-ip-range={_SERVICES}",
        "--runtime-config=api/all=true", f"--feature-gates={_GATES},{_CACHES}", "--endpoint-reconciler-type=none",
        "--allow-privileged=true", "--anonymous-auth=false", "--enable-priority-and-fairness=false",
        "--max-requests-inflight=1000", "--max-mutating-requests-inflight=500", "--profiling=false",
        "--delete-collection-workers=4", *audited,
    )  # fmt: skip


def _audited(directory: Path, log: Path) -> tuple[str, ...]:
    """Return the flags for an audit log of all requests that may change something.

    Requests of the cluster's own components are left out (kubernetes.io/docs/tasks/debug/debug-cluster/audit).
    """
    # Over a WebSocket these are GET requests.
    enters = [{"group": "", "resources": ["pods/exec", "pods/attach", "pods/portforward"]}]
    rules = [
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
        {"level": "None", "users": sorted(user for user, _group in CLIENTS.values() if user != CLIENTS["admin"][0])},
        {"level": "Metadata", "resources": enters},
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    write_atomic(directory / "audit.yaml", json.dumps(policy))
    return (f"--audit-policy-file={directory / 'audit.yaml'}", f"--audit-log-path={log}")


def _controller_manager(layout: _Layout) -> ProcessSpec:
    pki, kubeconfig = layout.pki, layout.kubeconfig("controller-manager")
    return layout.process(
        "kube-controller-manager", 2, "/healthz", f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-controller-manager']}", "--leader-elect=false",
        "--use-service-account-credentials=true", "--node-monitor-period=1s",
        # The default is fifteen seconds, and a test of autoscaling takes four rounds.
        "--horizontal-pod-autoscaler-sync-period=1s",
        # Where a service has a pod on every node, each starting pod would otherwise write all of them. Nothing here
        # reads the older Endpoints (kubernetes.io/docs/concepts/services-networking/service, deprecated in v1.33).
        "--controllers=*,-endpoints-controller,-endpointslice-mirroring-controller",
        "--endpointslice-updates-batch-period=1s",
        f"--tls-cert-file={pki.cert('server')}", f"--tls-private-key-file={pki.key('server')}",
        f"--service-account-private-key-file={pki.account_key}", f"--root-ca-file={pki.ca}",
        f"--cluster-signing-cert-file={pki.ca}", f"--cluster-signing-key-file={pki.key('ca')}",
        f"--service-cluster-ip-range={_SERVICES}", f"--feature-gates={_GATES}", "--kube-api-qps=300",
        "--kube-api-burst=600", f"--node-monitor-grace-period={kwok.LEASE_S + 60}s", "--profiling=false",
    )  # fmt: skip


def _scheduler(layout: _Layout) -> ProcessSpec:
    pki = layout.pki
    return layout.process(
        "kube-scheduler", 2, "/healthz", f"--config={layout.directory / 'scheduler.yaml'}", "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-scheduler']}", f"--tls-cert-file={pki.cert('server')}",
        f"--tls-private-key-file={pki.key('server')}", f"--feature-gates={_GATES}",
    )  # fmt: skip


def _kwok(layout: _Layout) -> ProcessSpec:
    kubeconfig, configuration = layout.kubeconfig("kwok"), layout.directory / "kwok.yaml"
    return layout.process("kwok", 3, "/healthz", f"--kubeconfig={kubeconfig}", f"--config={configuration}", "--v=WARN")


def _prime(layout: _Layout, step: str, wave: int) -> ProcessSpec:
    arguments = (step, str(layout.directory), str(layout.ports["kube-apiserver"]))
    argv = python_argv("rehearsal.control_plane.prime", *arguments)
    return ProcessSpec(name=f"prime-{step}", argv=argv, wave=wave, once=True, limit_s=120)
