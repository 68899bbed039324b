# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Criteria detected from a running cluster, each with its evidence. Stated values win, and the report shows that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..outcome.codec import to_plain
from .criteria import Criteria, DetectionRule, Vocabulary, make_criteria

# Dimensions of each node. All others are one fact of the whole cluster.
_POOL_DIMENSIONS = ("accelerator", "os", "fabric", "nvlink_domain")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The facts of one node that detection uses."""

    name: str
    gpus: int = 0
    gpu_product: str = ""
    os_id: str = ""
    provider_id: str = ""
    instance_type: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: tuple[str, ...] = ()
    link_layers: tuple[str, ...] = ()

    def values(self, fact: str) -> tuple[str, ...]:
        """Return the values of a node for a fact."""
        if fact == "label":
            return tuple(f"{key}={value}" for key, value in sorted(self.labels.items()))
        listed = {"resource": self.resources, "link_layer": self.link_layers}
        if fact in listed:
            return listed[fact]
        single = {
            "gpu_product": self.gpu_product,
            "os_id": self.os_id,
            "provider_id": self.provider_id,
            "instance_type": self.instance_type,
        }
        return (single[fact],) if single.get(fact) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts of a cluster that detection uses."""

    server_version: str = ""
    nodes: tuple[NodeFacts, ...] = ()

    @property
    def gpu_nodes(self) -> tuple[NodeFacts, ...]:
        """The nodes with GPUs, by their count or their product."""
        return tuple(node for node in self.nodes if node.gpus or node.gpu_product)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The value of one dimension, its source, and its evidence.

    `source` is stated, detected, mixed (nodes differ: several pools) or unknown. `detected` is the detected value, also
    where a stated one wins.
    """

    dimension: str
    value: str
    source: str
    detected: str = ""
    evidence: str = ""

    @property
    def overruled(self) -> bool:
        """Whether the stated value differs from the detected one."""
        return self.source == "stated" and bool(self.detected) and self.detected != self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedPool:
    """GPU nodes with equal values in all dimensions of nodes."""

    name: str
    criteria: Criteria
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The criteria to resolve, the finding of each dimension, and the pools if there are several."""

    criteria: Criteria
    findings: tuple[Finding, ...]
    pools: tuple[DetectedPool, ...] = ()

    @property
    def detected(self) -> frozenset[str]:
        """The dimensions that were detected and not stated."""
        return frozenset(finding.dimension for finding in self.findings if finding.source == "detected")


def plain_detection(found: Detection) -> dict[str, Any]:
    """Return a detection as the result of a module, with criteria as mappings."""
    plain: dict[str, Any] = to_plain(found)
    plain["criteria"] = found.criteria.to_dict()
    for pool, reported in zip(found.pools, plain["pools"], strict=True):
        reported["criteria"] = pool.criteria.to_dict()
    return plain


def _of_node(node: NodeFacts, dimension: str, vocabulary: Vocabulary) -> tuple[str, str]:
    """Return value and evidence of one node for a dimension. Both are empty if no rule matches."""
    for rule in vocabulary.detection:
        if rule.dimension != dimension:
            continue
        for text in node.values(rule.fact):
            if re.search(rule.pattern, text):
                return rule.value, f"node {node.name}: {rule.fact} is {text}"
    return "", ""


def _applying(facts: ClusterFacts, vocabulary: Vocabulary) -> Vocabulary:
    """Return the vocabulary without the detection rules that another fact of the cluster rules out."""
    return replace(vocabulary, detection=tuple(rule for rule in vocabulary.detection if not _denied(rule, facts)))


def _denied(rule: DetectionRule, facts: ClusterFacts) -> bool:
    for entry in rule.unless:
        nodes = (text for node in facts.nodes for text in node.values(entry.fact))
        reported = (facts.server_version,) if entry.fact == "server_version" else nodes
        if any(re.search(entry.pattern, text) for text in reported):
            return True
    return False


def _of_version(version: str, dimension: str, vocabulary: Vocabulary) -> tuple[str, str]:
    for rule in vocabulary.detection:
        if rule.dimension == dimension and rule.fact == "server_version" and re.search(rule.pattern, version):
            return rule.value, f"server version is {version}"
    return "", ""


def _reported(nodes: Iterable[NodeFacts], dimension: str, vocabulary: Vocabulary) -> dict[str, str]:
    """Return every value that nodes have, with the first node's evidence and the number of nodes."""
    evidence: dict[str, str] = {}
    count: dict[str, int] = {}
    for node in nodes:
        value, why = _of_node(node, dimension, vocabulary)
        if value:
            evidence.setdefault(value, why)
            count[value] = count.get(value, 0) + 1
    return {value: f"{why} ({count[value]} node(s) say so)" for value, why in evidence.items()}


def _found(facts: ClusterFacts, dimension: str, vocabulary: Vocabulary) -> Finding:
    own = dimension in _POOL_DIMENSIONS
    reported = _reported(facts.gpu_nodes if own else facts.nodes, dimension, vocabulary)
    if not reported and not own:
        value, why = _of_version(facts.server_version, dimension, vocabulary)
        reported = {value: why} if value else {}
    if not reported:
        return Finding(dimension=dimension, value="", source="unknown", evidence="no fact of the cluster tells it")
    if len(reported) > 1:
        evidence = "; ".join(f"{value}: {why}" for value, why in sorted(reported.items()))
        return Finding(dimension=dimension, value="", source="mixed", evidence=evidence)
    ((value, why),) = reported.items()
    return Finding(dimension=dimension, value=value, source="detected", detected=value, evidence=why)


def _pools(facts: ClusterFacts, vocabulary: Vocabulary, configured: Criteria) -> tuple[DetectedPool, ...]:
    groups: dict[Criteria, list[str]] = {}
    for node in facts.gpu_nodes:
        reported = {name: _of_node(node, name, vocabulary)[0] for name in _POOL_DIMENSIONS}
        groups.setdefault(make_criteria({**reported, **configured.to_dict()}), []).append(node.name)
    if len(groups) < 2:
        return ()
    pools = []
    for criteria in sorted(groups, key=lambda item: item.stated):
        own = [criteria.get(name) for name in _POOL_DIMENSIONS if criteria.get(name) != "any"]
        pools.append(DetectedPool(name="-".join(own), criteria=criteria, nodes=tuple(sorted(groups[criteria]))))
    return tuple(pools)


def detect(facts: ClusterFacts, vocabulary: Vocabulary, configured: Criteria) -> Detection:
    """Return the criteria of a cluster: the stated values, and detected ones for the rest."""
    vocabulary = _applying(facts, vocabulary)
    findings = []
    for name in vocabulary.names:
        found = _found(facts, name, vocabulary)
        if vocabulary.dimensions[name].number and facts.gpu_nodes:
            value = str(len(facts.gpu_nodes))
            found = Finding(
                dimension=name, value=value, source="detected", detected=value, evidence="GPU nodes counted"
            )
        if configured.get(name) != "any":
            found = Finding(
                dimension=name,
                value=configured.get(name),
                source="stated",
                detected=found.detected,
                evidence=found.evidence,
            )
        findings.append(found)
    criteria = make_criteria({finding.dimension: finding.value for finding in findings})
    return Detection(criteria=criteria, findings=tuple(findings), pools=_pools(facts, vocabulary, configured))
