# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real mpi-operator (kubeflow/mpi-operator), a process of this machine, beside a rehearsal's control plane."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import (
    MPI_OPERATOR,
    default_cache,
)

# Of its health check, for which it has no option (cmd/mpi-operator/app/server.go, healthCheckPort).
HEALTH_PORT = 8080


def health_port_is_free() -> bool:
    """Tell whether the operator can listen for its health check; where it cannot, it ends."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", HEALTH_PORT))
        except OSError:
            return False
    return True


@contextmanager
def real_mpi_operator(kubeconfig: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the operator, built first if it is not in the cache, until the block ends; its log lies at `log`."""
    sources = ROOT / "rehearsal" / "roles" / "rehearsal" / "files" / "toolchain"
    workshop = Workshop(sources, default_cache(os.environ), os.environ, Progress(silent), lambda: None)
    program = ensure_toolchain(workshop, (MPI_OPERATOR,))[MPI_OPERATOR.name].path
    argv = [str(program), "-kubeConfig", str(kubeconfig), "-lock-namespace", "default", "-kube-api-qps", "50"]
    # Its own variable would win over the option.
    environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    with log.open("wb") as stream:
        process = subprocess.Popen(argv, stdout=stream, stderr=stream, env=environ)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
