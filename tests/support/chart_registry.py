# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A registry of charts on loopback, as far as Helm asks it (opencontainers/distribution-spec, spec.md)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_CONFIG, _LAYER = "application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_PATH = re.compile(r"/v2/(?P<repository>.+)/(?:manifests|blobs)/(?P<reference>[^/]+)")


class ChartRegistry(ThreadingHTTPServer):
    """Serves packages by repository, each under every tag that is asked for."""

    def __init__(self, packages: Mapping[str, bytes]) -> None:
        """Bind to a free port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.tags: dict[str, str] = {}
        for repository, package in packages.items():
            config = self._add(repository, _CONFIG, b"{}")
            layer = self._add(repository, _LAYER, package)
            body = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": [layer]}
            self.tags[repository] = self._add(repository, _MANIFEST, json.dumps(body).encode())["digest"]

    def _add(self, repository: str, media: str, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[repository, digest] = media, data
        return {"mediaType": media, "digest": digest, "size": len(data)}


class _Handler(BaseHTTPRequestHandler):
    server: ChartRegistry

    def do_GET(self) -> None:
        self._answer(whole=True)

    def do_HEAD(self) -> None:
        self._answer(whole=False)

    def _answer(self, *, whole: bool) -> None:
        match = _PATH.fullmatch(self.path)
        repository, reference = (match["repository"], match["reference"]) if match else ("", "")
        digest = reference if ":" in reference else self.server.tags.get(repository, "")
        media, data = self.server.blobs.get((repository, digest), ("", b""))
        self.send_response(200 if media else 404)
        self.send_header("Content-Type", media or "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if whole:
            self.wfile.write(data)

    def log_message(self, *_words: Any) -> None:
        """Say nothing."""
