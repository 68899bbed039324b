# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chart of our own with everything by which charts differ: a schema, a part in it, what is handed on, a password."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

FILES = {
    "Chart.yaml": """apiVersion: v2
name: cert-manager
version: 9.9.9
dependencies:
  - {name: exporter, alias: metrics, version: 1.0.0, condition: metrics.enabled}
""",
    "values.yaml": """replicaCount: 1
nodeSelector: {}
tolerations: []
dead: true
webhook: {replicaCount: 1, extra: {}}
metrics: {enabled: false}
""",
    "values.schema.json": """{"type": "object", "properties": {"replicaCount": {"type": "integer"}}}""",
    "templates/deployment.yaml": """{{- /* .Values.inAComment is read by nobody. */}}
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: {{ .Release.Namespace }}, labels: {chart: "{{ .Chart.Version }}"}}
spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {app: controller}}
  template:
    metadata: {labels: {app: controller}}
    spec:
      nodeSelector: {{ toJson .Values.nodeSelector }}
      tolerations: {{ toJson .Values.tolerations }}
      containers:
        - {name: controller, image: "x:{{ .Values.tag | default .Chart.Version }}"}
""",
    "templates/webhook.yaml": """{{- with .Values.webhook }}
apiVersion: v1
kind: ConfigMap
metadata: {name: webhook, labels: {chart: "{{ $.Chart.Version }}"}}
data:
  replicas: "{{ .replicaCount }}"
  more: {{ .undocumented | default "" | quote }}
  extra: {{ toJson .extra | quote }}
{{- end }}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: {{ randAlphaNum 12 }}}
{{- if eq (toString .Values.replicaCount) "13" }}{{ fail "thirteen is refused" }}{{ end }}
""",
    "charts/exporter/Chart.yaml": "apiVersion: v2\nname: exporter\nversion: 1.0.0\n",
    "charts/exporter/values.yaml": "port: 9400\n",
    "charts/exporter/templates/service.yaml": """apiVersion: v1
kind: Service
metadata: {name: exporter}
spec: {ports: [{port: {{ .Values.port }}}], clusterIP: {{ .Values.global.address | default "None" }}}
""",
}


def written(directory: Path, changes: Mapping[str, str] | None = None) -> Path:
    """Write the chart as a directory, with other files in place of some, and return it."""
    for name, text in {**FILES, **(changes or {})}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory


def packed(path: Path) -> Path:
    """Write the chart as helm packs it, its part packed as well, and return the archive."""
    part = {name.removeprefix("charts/exporter/"): text for name, text in FILES.items() if "exporter/" in name}
    whole = {name: text.encode() for name, text in FILES.items() if "exporter/" not in name}
    whole["charts/exporter-1.0.0.tgz"] = _archive("exporter", {name: text.encode() for name, text in part.items()})
    path.write_bytes(_archive("cert-manager", whole))
    return path


def _archive(name: str, files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for file, data in files.items():
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()
