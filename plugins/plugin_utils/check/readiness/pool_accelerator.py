# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every node has the GPU model that the recipe, or its pool, is made for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...hardware.accelerator import Accelerator, load_accelerators
from ...outcome.gates import READINESS
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...snapshot.model import Host, Node, gpu_product
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .nodes_in_scope import nodes_by_pool, nodes_in_scope
from .observe_snapshot import OBSERVER, SNAPSHOT, Readiness

SPEC = CheckSpec(
    id="pool-accelerator",
    gate=READINESS,
    title="The GPUs of every node are of the kind that the recipe is for",
    per=SubjectKind.CLUSTER,
    applies=(needs("kubernetes"),),
    causes=("other-accelerator",),
)
_ANY = ("", "any", "None")
_MOST_NODES = 50
Asked = dict[str, str]


def judge(observed: Readiness, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each GPU model that differs from the requested one, with its nodes.

    Before the components are installed, nodes may not report their GPUs. Nodes that do not are then skipped.
    """
    answer = Answer.about_cluster(SPEC, context)
    if context.recipe is None:
        return (
            answer.unknown("no-data", "no recipe is resolved", "resolve it, or name one: gpufleet_validate_recipe"),
        )
    requested = _requested(context.recipe, observed, context)
    if not requested and _states_a_kind(context.recipe):
        text = "the recipe is for a kind of GPU, and no node that has GPUs was seen"
        hint = "state the hosts in the inventory, or take a snapshot that has its GPU nodes"
        return (answer.unknown("no-nodes", text, hint),)
    if not requested:
        return (answer.passed("the recipe is for any kind of GPU"),)
    kinds = _kinds(context)
    products = {name: _products(name, observed, context) for name in requested}
    not_reporting = [name for name, reported in products.items() if not all(reported)]
    bad = _others(answer, requested, products, kinds)
    if bad:
        return bad
    evidence = (Evidence("snapshot", "cluster", f"taken {observed.snapshot.taken}", SNAPSHOT),)
    if not_reporting and observed.installed:
        text = (
            f"{len(not_reporting)} of {len(requested)} node(s) do not say which GPUs they have: "
            f"{', '.join(sorted(not_reporting)[:8])}"
        )
        hint = "label nvidia.com/gpu.product of these nodes: feature discovery or the DRA driver must run there"
        return (answer.unknown("accelerator-unknown", text, hint, evidence=evidence),)
    if not_reporting:
        text = (
            f"{len(not_reporting)} of {len(requested)} node(s) say nothing of their GPUs before the driver "
            "stack is there"
        )
        return (answer.skipped(f"{text}; playbook validate looks again afterwards", evidence=evidence),)
    text = (
        f"{len(requested)} of {len(requested)} node(s) have what the recipe is for "
        f"({', '.join(sorted(set(requested.values())))})"
    )
    return (answer.passed(text, evidence=evidence),)


def _requested(recipe: Mapping[str, Any], observed: Readiness, context: JudgeContext) -> Asked:
    """Return the requested accelerator by node. Nodes for which the recipe requests none are left out."""
    common = str((recipe.get("criteria") or {}).get("accelerator") or "")
    requested = dict.fromkeys(nodes_in_scope(observed.snapshot, context.site), common)
    for pool, nodes in nodes_by_pool(recipe, observed.snapshot, context.site):
        own = str((pool.get("criteria") or {}).get("accelerator") or "")
        requested |= dict.fromkeys(nodes, own if own not in _ANY else common)
    return {name: word for name, word in requested.items() if word not in _ANY}


def _states_a_kind(recipe: Mapping[str, Any]) -> bool:
    configured = (recipe, *(recipe.get("pools") or ()))
    return any(str((entry.get("criteria") or {}).get("accelerator") or "") not in _ANY for entry in configured)


def _kinds(context: JudgeContext) -> dict[str, Accelerator]:
    """Return the GPU models of this release and those of the site's SKUs.

    A site's model replaces one of the same name.
    """
    own = {sku.gpu.name: sku.gpu for sku in context.hardware.values() if sku.gpu is not None}
    return load_accelerators() | own


def _products(name: str, observed: Readiness, context: JudgeContext) -> tuple[str, ...]:
    """Return every product name among the GPUs of a node; one GPU does not stand in for another.

    A GPU that reports no product is the empty string. Where no single GPU is listed, this is the product label of the
    node.
    """
    inventory = {host.node_name: host.name for host in context.site.hosts}
    host = observed.snapshot.hosts.get(inventory.get(name, name), Host())
    node = observed.snapshot.nodes.get(name, Node())
    devices = [device for device in node.devices.values() if device.get("type") == "gpu"]
    reported = {gpu.product for gpu in host.gpus.values()} or {
        str(device.get("productName") or "") for device in devices
    }
    return tuple(sorted(reported - {""} if len(reported) == 1 else reported)) or (gpu_product(node),)


def _kind(product: str, kinds: Mapping[str, Accelerator]) -> Accelerator | None:
    plain = product.replace("-", " ")
    return next(
        (kind for kind in kinds.values() for text in (product, plain) if re.search(kind.product_pattern, text)), None
    )


def _others(
    answer: Answer, requested: Asked, products: Mapping[str, tuple[str, ...]], kinds: Mapping[str, Accelerator]
) -> tuple[Outcome, ...]:
    groups: dict[tuple[str, str], list[str]] = {}
    for name, word in requested.items():
        for product in filter(None, products[name]):
            kind = _kind(product, kinds)
            if kind is None or word not in (kind.name, *kind.aliases):
                groups.setdefault((word, product), []).append(name)
    return tuple(_other(answer, word, product, sorted(names)) for (word, product), names in sorted(groups.items()))


def _other(answer: Answer, word: str, product: str, names: list[str]) -> Outcome:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return answer.failed(
        "other-accelerator",
        f"{', '.join(names[:8])}{more}: {product}, the recipe is for {word}",
        f"resolve the recipe for what is there, or state these nodes as a pool of their own (not {word})",
        measured=(Measure("accelerator", product),),
        expected=(Expectation("accelerator", "==", word, Basis.RECIPE),),
        evidence=(Evidence("node labels, ResourceSlices and hosts", names[0], product, SNAPSHOT),),
        more_subjects=tuple(node_subject(name) for name in names[:_MOST_NODES]),
    )


CHECK = Check(SPEC, OBSERVER, judge)
