# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kubeconfig files of a rehearsal (JSON is YAML)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from ...runtime.files import write_atomic
from .pki import Pki

CONTEXT = "rehearsal"


def write_kubeconfig(path: Path, pki: Pki, client: str, port: int) -> None:
    """Write the kubeconfig of a client of the API server on that port, with its keys inside."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": _encoded(pki.ca)}
    user = {
        "client-certificate-data": _encoded(pki.cert(client)),
        "client-key-data": _encoded(pki.key(client)),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": client, "user": user}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": client, "namespace": "default"}}],
    }
    write_atomic(path, json.dumps(document, indent=1) + "\n", 0o600)


def _encoded(path: str) -> str:
    return base64.b64encode(Path(path).read_bytes()).decode()
