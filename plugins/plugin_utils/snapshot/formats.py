# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Snapshots as text: reads and writes ours strictly, and upstream's format (NVIDIA/aicr, its "Measurement Schema")."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..constraint.declared import OF_PARTS, OKE_LEGACY_PLUGIN
from ..outcome.codec import MisfitsError, dumps, from_plain, structure
from ..outcome.errors import InputError
from ..outcome.model import Scalar
from ..recipe.dialect import RESULT_API, UPSTREAM_APIS
from ..runtime.strict import parse_yaml
from .model import (
    COLLECTORS,
    FIRST_OF,
    SCHEMA_VERSION,
    Attributes,
    Collected,
    CollectorResult,
    Host,
    HostGpu,
    Node,
    Server,
    Snapshot,
    has_gpus,
)
from .model import KIND as DECODE_KIND

# Reads snapshots of the upstream tool: NVIDIA/aicr, its "Measurement Schema".
#
# It records host and GPU of one node, labels and taints of all nodes. Whatever it cannot record counts as not asked
# here. Under its earlier names (Cloud Native Stack, Eidos) it wrote the same with another head; snapshots of these are
# in the history of the public forks mchmarny/cloud-native-stack and pdmack/aicr, examples/.

KIND = "Snapshot"
APIS = (*UPSTREAM_APIS, "aicr.run/v1alpha1")
# Earlier names of the tool, by API version.
_EARLIER = {
    "cns.nvidia.com/v1alpha1": "cloud-native-stack",
    "eidos.nvidia.com/v1alpha1": "eidos",
    "snapshot.dgxc.io/v1": "cloud-native-stack",
}
# Names of these fields of the head in its releases, the newest first.
_TAKEN = ("timestamp", "snapshot-timestamp", "measurement-timestamp", "recommendation-timestamp")
_VERSION = ("version", "snapshot-version")
_SOURCE = ("source-node", "source")
# Name of the GPU operator chart's only ClusterPolicy. Upstream does not record the name.
POLICY = "ClusterPolicy cluster-policy"
# Our own key in the head of a snapshot that we write in upstream's format.
REHEARSAL = "gpufleet-rehearsal"
_NOT_ASKED = CollectorResult(state=Collected.NOT_ASKED, reason="the upstream tool does not record it")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Reported only by a provider. The last one is its own plugin from before add-ons.
_PROVIDER = (*OF_PARTS, OKE_LEGACY_PLUGIN.split(".")[1])
_KNOWN = {
    "K8s": {"server", "image", "policy", "node", *_PROVIDER},
    "OS": {"grub", "sysctl", "kmod", "release"},
    # Releases after 0.11 count GPUs on the PCI bus, without a driver, and do not run nvidia-smi.
    "GPU": {"smi", "hardware"},
    "NodeTopology": {"summary", "label", "taint"},
}
# ExecStart of a unit ends with times, process id and exit of its last start (ExecStart in systemd's D-Bus API,
# org.freedesktop.systemd1(5)), in Go's print format.
_LAST_START = re.compile(r"( \d+){5}( -?\d+){2}(?=\])")
Subtypes = dict[str, dict[str, Any]]


def is_upstream(data: Mapping[str, Any]) -> bool:
    """Tell whether decoded data is a snapshot of the upstream tool."""
    return data.get("kind") == KIND and "measurements" in data


def from_upstream(data: Mapping[str, Any], source: str) -> Snapshot:
    """Return the content of an upstream snapshot.

    Raises:
        InputError: another version of its schema, or data that does not follow it.
    """
    api = str(data.get("apiVersion") or "")
    if api not in (*APIS, *_EARLIER):
        known = ", ".join((*APIS, *_EARLIER))
        raise InputError(source, f"apiVersion is {api!r}, expected one of {known}.", "convert it first")
    found = {kind: _subtypes(data, kind, source) for kind in ("K8s", "OS", "GPU", "SystemD", "NodeTopology")}
    if not any(found.values()):
        # Its first releases had other types (KMod, Grub, Sysctl), without subtypes.
        types = ", ".join(sorted({str(entry.get("type")) for entry in data["measurements"]})) or "nothing"
        reason = f"has nothing that this release reads: it measures {types}."
        raise InputError(source, reason, "take it again with a release of the tool that writes subtypes")
    head = data.get("metadata") or {}
    k8s = found["K8s"]
    itself = _data(k8s, "node")
    name = _reported(head, _SOURCE) or _text(itself.get("source-node"))
    nodes, whole = _nodes(found["NodeTopology"], source)
    if itself:
        nodes[name] = _source_node(nodes.get(name, Node()), itself)
    server = _data(k8s, "server")
    host = _host(found)
    return Snapshot(
        taken=_reported(head, _TAKEN),
        made_by=f"{_EARLIER.get(api, 'aicr')} {_reported(head, _VERSION)}".strip(),
        rehearsal={"true": True, "false": False}.get(_reported(head, (REHEARSAL,))),
        collectors=_collectors(found, whole, host),
        server=Server(
            version=_text(server.get("version")),
            platform=_text(server.get("platform")),
            go_version=_text(server.get("goVersion")),
        ),
        nodes=nodes,
        images={f"{name}:{_text(tag)}": () for name, tag in _data(k8s, "image").items()},
        policies={POLICY: policy} if (policy := _data(k8s, "policy")) else {},
        hosts={name: host} if host else {},
        provider={part: _data(k8s, part) for part in _PROVIDER if part in k8s},
        unread=_unread(data),
    )


def _reported(head: Mapping[str, Any], words: tuple[str, ...]) -> str:
    return next((str(head[word]) for word in words if head.get(word)), "")


def _unread(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of an upstream snapshot that this release does not read (`K8s.slinky-slurm`)."""
    parts = ((str(m.get("type")), str(s.get("subtype"))) for m in data["measurements"] for s in m.get("subtypes") or ())
    unread = {f"{kind}.{name}" for kind, name in parts if kind != "SystemD" and name not in _KNOWN.get(kind, ())}
    return tuple(sorted(unread))


def _subtypes(data: Mapping[str, Any], kind: str, source: str) -> Subtypes:
    found: Subtypes = {}
    measurements = data["measurements"]
    if not isinstance(measurements, list) or not all(isinstance(entry, dict) for entry in measurements):
        raise InputError(source, "measurements is no list of mappings.", "take the snapshot again")
    for measurement in measurements:
        if measurement.get("type") != kind:
            continue
        for subtype in measurement.get("subtypes") or ():
            name = subtype.get("subtype") if isinstance(subtype, dict) else None
            if not isinstance(name, str) or name in found:
                hint = "take it again with a release of the tool that names its subtypes"
                raise InputError(f"{source}: {kind}", f"subtype {name!r} is no name, or there twice.", hint)
            found[name] = subtype
            try:
                structure(dict[str, Scalar], subtype.get("data") or {})
            except MisfitsError as error:
                place = f"{source}: {kind}.{name}{error.misfits[0].path}"
                raise InputError(place, error.misfits[0].reason, "take the snapshot again") from None
    return found


def _data(subtypes: Subtypes, name: str) -> Attributes:
    return dict((subtypes.get(name) or {}).get("data") or {})


def _text(value: Scalar) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _source_node(node: Node, data: Attributes) -> Node:
    runtime = _text(data.get("container-runtime-id") or data.get("container-runtime")) or "://".join(
        filter(None, (_text(data.get("container-runtime-name")), _text(data.get("container-runtime-version"))))
    )
    return replace(
        node,
        provider_id=_text(data.get("provider-id")),
        kubelet=_text(data.get("kubelet-version")),
        container_runtime=runtime,
        kernel=_text(data.get("kernel-version")),
        os_image=_text(data.get("os-image")),
        operating_system=_text(data.get("operating-system")),
    )


def _nodes(topology: Subtypes, source: str) -> tuple[dict[str, Node], bool]:
    """Return all nodes with labels and taints, and whether every list of nodes is complete."""
    labels: dict[str, dict[str, str]] = {}
    taints: dict[str, list[str]] = {}
    whole = True
    for key, value, names in _readings(topology, "label", source):
        whole &= not names[1]
        for name in names[0]:
            labels.setdefault(name, {})[key] = value
    for key, value, names in _readings(topology, "taint", source):
        whole &= not names[1]
        for name in names[0]:
            taints.setdefault(name, []).append(f"{key}{value}")
    count = _data(topology, "summary").get("node-count")
    known = sorted({*labels, *taints})
    found = {name: Node(labels=labels.get(name, {}), taints=tuple(sorted(taints.get(name, ())))) for name in known}
    return found, whole and (count is None or count == len(known))


Names = tuple[tuple[str, ...], bool]


def _readings(topology: Subtypes, kind: str, source: str) -> Iterator[tuple[str, str, Names]]:
    """Yield key, value (of a taint `=value:effect`) and nodes of each reading: of `items` if any, else of `data`."""
    subtype, folded = topology.get(kind) or {}, _data(topology, kind)
    items = subtype.get("items") or ()
    if items:
        for item in items:
            context, data = item.get("context") or {}, item.get("data") or {}
            listed = data.get("node-list")
            if listed is None:
                listed = _text(folded.get(str(data.get("node-list-ref")))).rpartition("|")[2]
            names = _names(str(listed))
            if len(names[0]) == 0 or (not names[1] and data.get("node-count") != len(names[0])):
                raise InputError(
                    f"{source}: NodeTopology.{kind} {context.get('key')}", "nodes and node-count disagree."
                )
            value = str(context.get("value") or "")
            yield str(context.get("key")), _effect(value, context.get("effect")) if kind == "taint" else value, names
        return
    parts = 2 if kind == "taint" else 1
    rows = [(key, _fields(key, _text(text), kind)) for key, text in folded.items()]
    for key, fields in rows:
        if len(fields) != parts + 1:
            raise InputError(f"{source}: NodeTopology.{kind} {key}", f"has {len(fields)} parts, expected {parts + 1}.")
    # A key with several values (taints: effects) gets each of them as suffix. A single key may end so by itself.
    stems = Counter(key.removesuffix(f".{fields[0]}") for key, fields in rows)
    for key, fields in rows:
        stem = key.removesuffix(f".{fields[0]}")
        name = stem if stems[stem] > 1 or _two_parts(kind, folded[key]) else key
        yield name, _effect(fields[1], fields[0]) if kind == "taint" else fields[0], _names(fields[-1])


def _two_parts(kind: str, text: Scalar) -> bool:
    return kind == "taint" and _text(text).count("|") == 1


def _fields(key: str, text: str, kind: str) -> list[str]:
    """Return the parts of a reading.

    A taint whose key ends with its effect has two parts (upstream: pkg/collector/topology). An example is the taint of
    an unreachable node, which Kubernetes adds with two effects.
    """
    effect = key.rpartition(".")[2]
    if _two_parts(kind, text) and effect in _EFFECTS:
        text = f"{effect}|{text}"
    return text.split("|", 2 if kind == "taint" else 1)


def _effect(value: str, effect: Scalar) -> str:
    return f"={value}:{effect}" if value else f":{effect}"


def _names(listed: str) -> Names:
    """Return the nodes of a list, and whether it was cut (`a,b (+2 more)`)."""
    plain, cut, _rest = listed.partition(" (+")
    return tuple(name.strip() for name in plain.split(",") if name.strip()), bool(cut)


def _host(found: Mapping[str, Subtypes]) -> Host | None:
    system, smi, hardware = found["OS"], _data(found["GPU"], "smi"), _data(found["GPU"], "hardware")
    if not (system or smi or hardware or found["SystemD"]):
        return None
    gpu = {key.removeprefix("gpu."): value for key, value in smi.items() if key.startswith("gpu.")}
    count = _most(smi.get("gpu-count"), hardware.get("gpu-count")) or int(bool(gpu))
    # Only of the first GPU, without its address. The model read from the bus is a name of upstream's own
    # (pkg/collector/gpu/device_ids.go), and not the product name of a driver.
    first = HostGpu(
        product=_text(gpu.get("model")),
        vbios=_text(gpu.get("vbios-version")) or None,
        kind=_text(hardware.get("model")),
    )
    gpus = {f"{FIRST_OF}{count}": first} if count else {}
    release = {key: _text(value) for key, value in _data(system, "release").items()}
    sysctl = {key: _text(value) for key, value in _data(system, "sysctl").items()}
    return Host(
        os=release,
        kernel=sysctl.get("/proc/sys/kernel/osrelease", ""),
        boot={key: _text(value) for key, value in _data(system, "grub").items()},
        sysctl=sysctl,
        modules=tuple(sorted(key for key, value in _data(system, "kmod").items() if value)),
        units={name: _unit(_data(found["SystemD"], name)) for name in found["SystemD"]},
        driver=_text(smi.get("driver")),
        cuda=_text(smi.get("cuda-version")),
        gpus=gpus,
    )


def _unit(data: Attributes) -> Attributes:
    return {key: _LAST_START.sub("", value) if key.startswith("Exec") and isinstance(value, str) else value
            for key, value in data.items()}  # fmt: skip


def _most(*counts: Scalar) -> int:
    """Return the number of GPUs. If one method finds none, the other one counts."""
    return max(int(text) if (text := _text(count)).isdecimal() else 0 for count in counts)


def _collectors(found: Mapping[str, Subtypes], whole: bool, host: Host | None) -> dict[str, CollectorResult]:
    def seen(there: bool, what: str) -> CollectorResult:
        if there:
            return CollectorResult(state=Collected.WHOLE)
        return CollectorResult(
            state=Collected.FAILED, reason=f"the upstream snapshot has no {what}", hint="take it again"
        )

    topology = found["NodeTopology"].get("label") or {}
    results = dict.fromkeys(COLLECTORS, _NOT_ASKED)
    results["server"] = seen("server" in found["K8s"], "K8s.server")
    results["policies"] = seen("policy" in found["K8s"], "K8s.policy")
    # Every node has labels. Without any, the tool did not reach the API server and wrote an empty part.
    results["nodes"] = seen(bool(topology.get("data") or topology.get("items")), "node in NodeTopology.label")
    if not whole and results["nodes"].state is Collected.WHOLE:
        reason = "its lists of nodes are cut, or fewer than its node-count"
        hint = "take it again without --max-nodes-per-entry"
        results["nodes"] = CollectorResult(state=Collected.FAILED, reason=reason, hint=hint)
    results["hosts"] = seen(host is not None, "OS, GPU or SystemD")
    return results


# Writes our snapshots in upstream's format, as far as it has the fields (source: see above).

# Upstream's names of clouds, by the scheme of a node's provider id.
PROVIDERS = {"aws": "eks", "gce": "gke", "azure": "aks", "oci": "oke"}
Json = dict[str, Any]


def to_upstream(snapshot: Snapshot, api: str = RESULT_API) -> Json:
    """Return the snapshot in upstream's format, in an API of `UPSTREAM_APIS`.

    It has one host: the first by name that has GPUs, else the first node.
    """
    read = {name: host for name, host in snapshot.hosts.items() if not host.not_read}
    hosts = sorted(read, key=lambda name: (not read[name].gpus, name))
    gpus = sorted(snapshot.nodes, key=lambda name: (not has_gpus(snapshot.nodes[name]), name))
    source = next((name for name in hosts if name in snapshot.nodes), (gpus or hosts or [""])[0])
    measurements = [_k8s(snapshot, source), _topology(snapshot)]
    if source in read:
        measurements += _of_host(read[source])
    metadata = {"timestamp": snapshot.taken, "version": snapshot.made_by, "source-node": source}
    if snapshot.rehearsal is not None:
        # Upstream's head is a map of texts (NVIDIA/aicr pkg/header/header.go), and its tool reads only the keys that it
        # knows.
        metadata[REHEARSAL] = "true" if snapshot.rehearsal else "false"
    return {
        "kind": KIND,
        "apiVersion": api,
        "metadata": metadata,
        "measurements": [m for m in measurements if m["subtypes"]],
    }


def _measured(kind: str, subtypes: Mapping[str, Mapping[str, Any]]) -> Json:
    return {
        "type": kind,
        "subtypes": [{"subtype": name, "data": dict(data)} for name, data in subtypes.items() if data],
    }


def _k8s(snapshot: Snapshot, source: str) -> Json:
    server = snapshot.server
    reported = {"version": server.version, "platform": server.platform, "goVersion": server.go_version}
    node = snapshot.nodes.get(source)
    return _measured(
        "K8s",
        {
            "server": reported if server.version else {},
            "image": _images(snapshot.images),
            "policy": _policy(snapshot.policies),
            "node": _node(source, node) if node else {},
            **snapshot.provider,
        },
    )


def _images(images: Mapping[str, Any]) -> dict[str, str]:
    """Return the tag by the last part of the image name, as upstream does.

    Of two equal names only one remains there.
    """
    plain = ((reference.partition("@")[0].rpartition("/")[2]) for reference in sorted(images))
    return {name: tag for name, _colon, tag in (text.partition(":") for text in plain) if tag}


def _policy(policies: Mapping[str, Attributes]) -> Attributes:
    found = [name for name in sorted(policies) if name.startswith("ClusterPolicy ")]
    return dict(policies.get(POLICY) or (policies[found[0]] if found else {}))


def _node(name: str, node: Node) -> dict[str, str]:
    runtime, _slashes, version = node.container_runtime.partition("://")
    return {
        "source-node": name,
        "provider": PROVIDERS.get(node.provider, node.provider),
        "provider-id": node.provider_id,
        "container-runtime-id": node.container_runtime,
        "container-runtime-name": runtime,
        "container-runtime-version": version,
        "kubelet-version": node.kubelet,
        "kernel-version": node.kernel,
        "operating-system": node.operating_system,
        "os-image": node.os_image,
    }


def _topology(snapshot: Snapshot) -> Json:
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    taints: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name in sorted(snapshot.nodes):
        for pair in snapshot.nodes[name].labels.items():
            labels[pair].append(name)
        for taint in snapshot.nodes[name].taints:
            word, _colon, effect = taint.rpartition(":")
            key, _equals, value = word.partition("=")
            taints[(key, value, effect)].append(name)
    values = _counted(key for key, _value in labels)
    effects = _counted(key for key, _value, _effect in taints)
    summary = {"node-count": len(snapshot.nodes), "taint-count": len(taints), "label-count": len(labels)}
    return _measured(
        "NodeTopology",
        {
            "summary": summary if snapshot.nodes else {},
            "taint": {
                (f"{key}.{effect}" if effects[key] > 1 else key): "|".join(
                    (*(() if effects[key] > 1 else (effect,)), value, ",".join(names))
                )
                for (key, value, effect), names in sorted(taints.items())
            },
            "label": {
                (f"{key}.{value}" if values[key] > 1 else key): f"{value}|{','.join(names)}"
                for (key, value), names in sorted(labels.items())
            },
        },
    )


def _counted(keys: Any) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for key in keys:
        found[key] += 1
    return found


def _of_host(host: Host) -> list[Json]:
    sysctl = {"/proc/sys/kernel/osrelease": host.kernel, **host.sysctl} if host.kernel else host.sysctl
    system: dict[str, Mapping[str, Any]] = {
        "grub": host.boot,
        "sysctl": sysctl,
        "kmod": dict.fromkeys(host.modules, True),
        "release": host.os,
    }
    smi: Json = {"driver": host.driver, "cuda-version": host.cuda, "gpu-count": host.gpu_count} if host.driver else {}
    if smi and host.gpus:
        first = host.gpus[min(host.gpus)]
        smi |= {"gpu.model": first.product, "gpu.vbios-version": first.vbios or ""}
    return [_measured("OS", system), _measured("SystemD", host.units), _measured("GPU", {"smi": smi})]


# Reads a snapshot from text: ours strictly, or upstream's format.

_AGAIN = "take it again with this release"
# If missing, these would read as not observed. Earlier releases wrote neither `rehearsal` nor `provider`: without them
# the value is unknown, which is reported and does not count as a no.
_WRITTEN = frozenset(Snapshot.__dataclass_fields__) - {"rehearsal", "provider"}


def to_text(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON. Equal snapshots give equal text."""
    return dumps(snapshot)


def parse_snapshot(text: str, source: str) -> Snapshot:
    """Return the snapshot in a text, ours or upstream's.

    Args:
        text: JSON or YAML.
        source: where it comes from, for messages.

    Raises:
        InputError: it is neither, of another schema, or incomplete.
    """
    return from_data(_decoded(text, source), source)


def _decoded(text: str, source: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(source, f"not JSON: {error}.", "is the file cut off?") from None
    return parse_yaml(text, source)


def from_data(data: Any, source: str) -> Snapshot:
    """Return the snapshot in decoded data (see parse_snapshot)."""
    if not isinstance(data, dict):
        raise InputError(source, "holds no snapshot: it is no mapping.", "give the file that playbook snapshot wrote")
    if is_upstream(data):
        return from_upstream(data, source)
    if data.get("kind") != DECODE_KIND:
        found = f"kind is {data.get('kind')!r}, expected {DECODE_KIND}, or Snapshot of the upstream tool."
        raise InputError(source, found, "give the file that playbook snapshot wrote")
    if data.get("schema_version") != SCHEMA_VERSION:
        found = f"schema_version is {data.get('schema_version')!r}, this release reads {SCHEMA_VERSION}."
        raise InputError(source, found, _AGAIN)
    missing = sorted(_WRITTEN - set(data))
    if missing:
        raise InputError(source, f"has no {missing[0]}, which is always written.", _AGAIN)
    return from_plain(Snapshot, data, source)
