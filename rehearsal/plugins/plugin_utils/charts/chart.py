# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of one stand-in chart, from the facts in standins.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

# Contents of a stand-in chart: the facts of standins.yaml as values.

_FACTS = Path(__file__).with_name("standins.yaml")


@dataclass(frozen=True, slots=True)
class Crd:
    """One custom resource: `group`, `version`, `kind`, `plural`, `scope`, and whether its status is a subresource."""

    group: str
    version: str
    kind: str
    plural: str
    scope: str
    status: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """One Deployment, DaemonSet or StatefulSet. `name`, `when` and `crashes_when` are Helm text.

    - `reads`: paths in the values of pod fields (nodeSelector, tolerations, affinity, priorityClassName,
      runtimeClassName), and of the number of pods (replicas).
    - `selects`: node labels that its pods require.
    - `priority`: priority class in its template.
    """

    kind: str
    name: str
    containers: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    crashes_when: str = ""
    reads: Mapping[str, str] = field(default_factory=dict)
    selects: Mapping[str, str] = field(default_factory=dict)
    priority: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A condition under which the chart fails to render: a Helm condition, and the error message."""

    when: str
    says: str


@dataclass(frozen=True, slots=True)
class StandIn:
    """Objects of one chart, from standins.yaml."""

    crds: tuple[Crd, ...] = ()
    crds_in: str = "crds"
    crds_when: str = ""
    schemas: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    templates: tuple[str, ...] = ()
    refuses: tuple[Refusal, ...] = ()
    kube_version: str = ""


def parse_crd(line: str) -> Crd:
    """Return a custom resource from `<group>/<version> <Kind> <plural> <scope> [status]`.

    Raises:
        InputError: the line has another form.
    """
    words = line.split()
    group, slash, version = words[0].rpartition("/") if words else ("", "", "")
    if (
        len(words) not in (4, 5)
        or not slash
        or words[3] not in ("Cluster", "Namespaced")
        or words[4:] not in ([], ["status"])
    ):
        raise InputError(f"stand-in CRD {line!r}", "not `group/version Kind plural Cluster|Namespaced [status]`.")
    return Crd(group, version, words[1], words[2], words[3], len(words) == 5)


def _workload_facts(entry: Mapping[str, Any]) -> Workload:
    return Workload(
        kind=entry["kind"],
        name=entry["name"],
        containers=tuple(entry["containers"]),
        labels=entry.get("labels", {}),
        when=entry.get("when", ""),
        crashes_when=entry.get("crashes_when", ""),
        reads=_reads(entry.get("reads", {})),
        selects=entry.get("selects", {}),
        priority=entry.get("priority", ""),
    )


_POD_FIELDS = ("nodeSelector", "tolerations", "affinity", "priorityClassName")


def _reads(given: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return the path of each field. A text is the one mapping that has all fields, `.` for the values themselves."""
    if not isinstance(given, str):
        return given
    prefix = "" if given == "." else f"{given}."
    return {name: f"{prefix}{name}" for name in _POD_FIELDS}


@lru_cache(maxsize=1)
def load_stand_ins() -> Mapping[str, StandIn]:
    """Return every known stand-in by chart name and alias."""
    found: dict[str, StandIn] = {}
    for name, entry in read_yaml(_FACTS).items():
        stand_in = StandIn(
            crds=tuple(parse_crd(line) for line in entry.get("crds", [])),
            crds_in=entry.get("crds_in", "crds"),
            crds_when=entry.get("crds_when", ""),
            schemas=entry.get("schemas", {}),
            workloads=tuple(_workload_facts(workload) for workload in entry["workloads"]),
            values=entry.get("values", {}),
            templates=tuple(entry.get("templates", [])),
            refuses=tuple(Refusal(**refusal) for refusal in entry.get("refuses", [])),
            kube_version=entry.get("kube_version", ""),
        )
        found.update(dict.fromkeys([name, *entry.get("aliases", [])], stand_in))
    return found


def stand_in_for(chart: str, configured: Sequence[Mapping[str, str]] = ()) -> StandIn:
    """Return the stand-in of a chart.

    An unknown chart gets the workloads (kind, name) of its registry entry, else one Deployment named after its release.
    """
    known = load_stand_ins().get(chart)
    if known:
        return known
    if configured:
        return StandIn(
            workloads=tuple(Workload(entry["kind"], entry["name"], (entry["name"],)) for entry in configured)
        )
    return StandIn(workloads=(Workload("Deployment", '{{ include "standin.fullname" . }}', (chart,)),))


# The files of one stand-in chart.

FAULT_ANNOTATION = "rehearsal.gpufleet.invalid/fault"
# Name of a subchart that has only definitions.
_PART, _PART_VERSION = "crds", "0.0.0"
_CARRIES_FAULT = ".Chart.Annotations"
_TEMPLATES = Path(__file__).with_name("templates")


def chart_files(name: str, version: str, stand_in: StandIn, fault: str = "") -> dict[str, str]:
    """Return the files of a chart, by path under the chart's directory.

    Args:
        name: chart name.
        version: chart version.
        stand_in: what it creates.
        fault: reason for which the containers of its first workload keep failing, such as `CrashLoopBackOff`. A
            workload in a template takes it from the chart's annotations.

    Raises:
        InputError: it has no workload that could keep failing.
    """
    if fault and not (stand_in.workloads or any(_CARRIES_FAULT in _template(name) for name in stand_in.templates)):
        raise InputError(f"stand-in {name}", f"has no workload that could show {fault}.", "break another component")
    values = {"nameOverride": "", "fullnameOverride": "", **stand_in.values}
    files = {
        **_definitions(version, stand_in),
        "Chart.yaml": _json(_chart(name, version, stand_in, "" if stand_in.workloads else fault)),
        "values.yaml": _json(values),
        "templates/_helpers.tpl": _template("_helpers.tpl"),
        "templates/rights.yaml": _rights(),
    }
    if stand_in.refuses:
        files["templates/refuses.yaml"] = "".join(
            f"{{{{- if {one.when} }}}}{{{{ fail {json.dumps(one.says)} }}}}{{{{ end }}}}\n" for one in stand_in.refuses
        )
    for number, workload in enumerate(stand_in.workloads):
        files[f"templates/workload-{number}.yaml"] = _workload(name, workload, "" if number else fault)
    for template in stand_in.templates:
        files[f"templates/{Path(template).stem}.yaml"] = _template(template)
    return files


def crd_document(crd: Crd) -> dict[str, Any]:
    """Return a CustomResourceDefinition that accepts any content."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: dict[str, Any] = {
        "name": crd.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if crd.status:
        version["subresources"] = {"status": {}}
    names = {"kind": crd.kind, "listKind": f"{crd.kind}List", "plural": crd.plural, "singular": crd.kind.lower()}
    metadata: dict[str, Any] = {"name": f"{crd.plural}.{crd.group}"}
    if crd.group.endswith((".k8s.io", ".x-k8s.io")):
        # The API server protects these groups: a CRD in them needs an approval annotation.
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, rehearsal"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": crd.group, "names": names, "scope": crd.scope, "versions": [version]},
    }


def _definitions(version: str, stand_in: StandIn) -> dict[str, str]:
    """Return the files of the definitions: in the chart's crds/, or in a subchart named crds."""
    where = stand_in.crds_in
    if where == "crds":
        return {f"crds/{crd.plural}.{crd.group}.yaml": _json(crd_document(crd)) for crd in stand_in.crds}
    about = {"apiVersion": "v2", "name": _PART, "version": _PART_VERSION, "appVersion": version}
    switches = {crd.plural: {"enabled": True} for crd in stand_in.crds}
    files = {
        f"charts/{_PART}/Chart.yaml": _json(about),
        f"charts/{_PART}/values.yaml": _json({"annotations": {}, **switches}),
    }
    for crd in stand_in.crds:
        text = _json(crd_document(crd))
        if where.endswith("/templates"):
            body = _template(stand_in.schemas[crd.plural]) if crd.plural in stand_in.schemas else text
            # Nothing may surround the condition: a template that is switched off has to render to no document.
            text = f"{{{{- if .Values.{crd.plural}.enabled -}}}}\n---\n{body}{{{{- end -}}}}\n"
        files[f"{where}/crd-{crd.plural}.yaml"] = text
    return files


def _chart(name: str, version: str, stand_in: StandIn, fault: str) -> Mapping[str, Any]:
    kube_version, part = stand_in.kube_version, {"name": _PART, "version": _PART_VERSION}
    when = {"condition": stand_in.crds_when} if stand_in.crds_when else {}
    return {
        **({"kubeVersion": kube_version} if kube_version else {}),
        **({"dependencies": [{**part, **when}]} if stand_in.crds_in != "crds" else {}),
        "apiVersion": "v2",
        "name": name,
        "version": version,
        "appVersion": version,
        "description": f"Stand-in of {name} for a rehearsal. It controls no hardware.",
        "annotations": {
            "rehearsal.gpufleet.invalid/stand-in": "true",
            **({FAULT_ANNOTATION: fault} if fault else {}),
        },
    }


def _rights() -> str:
    """Return the service account and the cluster role that every operator has."""
    name = '{{ include "standin.fullname" . }}'
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": "@labels"},
        "rules": [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}],
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "{{ .Release.Namespace }}", "labels": "@labels"},
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": "@labels"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "{{ .Release.Namespace }}"}],
    }
    return "\n---\n".join(_helm_json(document) for document in (account, role, binding)) + "\n"


def _workload(chart: str, workload: Workload, fault: str) -> str:
    app = workload.labels or {"app.kubernetes.io/name": chart, "app.kubernetes.io/component": workload.containers[0]}
    selector = {"app.kubernetes.io/instance": "{{ .Release.Name }}", **app}
    pod: dict[str, Any] = {"metadata": {"labels": selector}, "spec": _pod_spec(workload)}
    spec: dict[str, Any] = {"selector": {"matchLabels": selector}, "template": pod}
    if workload.kind == "StatefulSet":
        spec["serviceName"] = workload.name
    if workload.kind != "DaemonSet":
        spec["replicas"] = f"@read:1:{workload.reads['replicas']}" if "replicas" in workload.reads else 1
    # KWOK simulates a fault, see roles/rehearsal/files/kwok/stages.yaml.tpl.
    if fault:
        pod["metadata"]["annotations"] = {FAULT_ANNOTATION: fault}
    elif workload.crashes_when:
        pod["metadata"]["annotations"] = f"@crashes:{workload.crashes_when}"
    metadata = {"name": workload.name, "namespace": "{{ .Release.Namespace }}", "labels": "@labels"}
    text = _helm_json({"apiVersion": "apps/v1", "kind": workload.kind, "metadata": metadata, "spec": spec}, app)
    return f"{{{{- if {workload.when} }}}}\n{text}\n{{{{- end }}}}\n" if workload.when else f"{text}\n"


def _pod_spec(workload: Workload) -> dict[str, Any]:
    containers = [
        {"name": name, "image": f"rehearsal/{name}:{{{{ .Chart.AppVersion }}}}"} for name in workload.containers
    ]
    spec: dict[str, Any] = {"serviceAccountName": '{{ include "standin.fullname" . }}', "containers": containers}
    if workload.kind == "DaemonSet" and "tolerations" not in workload.reads:
        spec["tolerations"] = [{"operator": "Exists"}]
    for name, path in workload.reads.items():
        if name != "replicas":
            spec[name] = f"@read:{_NOTHING[name]}:{path}"
    if workload.priority:
        spec["priorityClassName"] = workload.priority
    if workload.selects:
        spec["nodeSelector"] = dict(workload.selects)
    return spec


# Default of a field as Helm text, where the values do not have it.
_NOTHING = {
    "nodeSelector": "dict",
    "tolerations": "list",
    "affinity": "dict",
    "priorityClassName": "nil",
    "runtimeClassName": "nil",
}
_CRASHES = re.compile(r'"@crashes:([^"]*)"')
_READ = re.compile(r'"@read:([^:]*):([^"]*)"')


def _crashes(match: re.Match[str]) -> str:
    """Return the Helm text for annotations of a pod that keeps failing under a condition."""
    found = json.dumps({FAULT_ANNOTATION: "CrashLoopBackOff"})
    return f"{{{{ if {match[1]} }}}}{found}{{{{ else }}}}{{}}{{{{ end }}}}"


def _read(match: re.Match[str]) -> str:
    """Return the Helm text for the value at a dotted path, as JSON. Without a default it renders to nothing."""
    nothing = {"dict": "(dict)", "list": "(list)", "nil": '""'}.get(match[1], match[1])
    steps = " ".join(json.dumps(step) for step in match[2].split("."))
    found = f"dig {steps} {nothing} .Values.AsMap"
    return f"{{{{ {found} | default nil | toJson }}}}" if match[1] == "nil" else f"{{{{ {found} | toJson }}}}"


def _helm_json(document: Mapping[str, Any], more_labels: Mapping[str, str] | None = None) -> str:
    """Return a document as JSON (which is YAML) with raw Helm text and the common labels."""
    text = json.dumps(document, indent=2)
    # json escapes the quotes of Helm expressions. Helm needs them raw, and its output has none.
    text = text.replace('\\"', '"')
    text = _CRASHES.sub(_crashes, _READ.sub(_read, text))
    labels = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in (more_labels or {}).items())
    common = '{{ include "standin.labels" . | fromYaml | toJson | trimSuffix "}" }}' + labels + "}"
    return text.replace('"@labels"', common)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
