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


def judge(seen: Readiness, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each GPU model that differs from the requested one, with its nodes.

    Before the components are installed, nodes may not report their GPUs. Nodes that do not are then skipped.
    """
    answer = Answer.about_cluster(SPEC, context)
    if context.recipe is None:
        return (
            answer.unknown("no-data", "no recipe is resolved", "resolve it, or name one: gpufleet_validate_recipe"),
        )
    asked = _asked(context.recipe, seen, context)
    if not asked and _states_a_kind(context.recipe):
        text = "the recipe is for a kind of GPU, and no node that has GPUs was seen"
        hint = "state the hosts in the inventory, or take a snapshot that has its GPU nodes"
        return (answer.unknown("no-nodes", text, hint),)
    if not asked:
        return (answer.passed("the recipe is for any kind of GPU"),)
    kinds = _kinds(context)
    products = {name: _products(name, seen, context) for name in asked}
    silent = [name for name, said in products.items() if not all(said)]
    bad = _others(answer, asked, products, kinds)
    if bad:
        return bad
    evidence = (Evidence("snapshot", "cluster", f"taken {seen.snapshot.taken}", SNAPSHOT),)
    if silent and seen.installed:
        text = f"{len(silent)} of {len(asked)} node(s) do not say which GPUs they have: {', '.join(sorted(silent)[:8])}"
        hint = "label nvidia.com/gpu.product of these nodes: feature discovery or the DRA driver must run there"
        return (answer.unknown("accelerator-unknown", text, hint, evidence=evidence),)
    if silent:
        text = f"{len(silent)} of {len(asked)} node(s) say nothing of their GPUs before the driver stack is there"
        return (answer.skipped(f"{text}; playbook validate looks again afterwards", evidence=evidence),)
    text = (
        f"{len(asked)} of {len(asked)} node(s) have what the recipe is for ({', '.join(sorted(set(asked.values())))})"
    )
    return (answer.passed(text, evidence=evidence),)


def _asked(recipe: Mapping[str, Any], seen: Readiness, context: JudgeContext) -> Asked:
    """Return the requested accelerator by node. Nodes for which the recipe requests none are left out."""
    common = str((recipe.get("criteria") or {}).get("accelerator") or "")
    asked = dict.fromkeys(nodes_in_scope(seen.snapshot, context.site), common)
    for pool, nodes in nodes_by_pool(recipe, seen.snapshot, context.site):
        own = str((pool.get("criteria") or {}).get("accelerator") or "")
        asked |= dict.fromkeys(nodes, own if own not in _ANY else common)
    return {name: word for name, word in asked.items() if word not in _ANY}


def _states_a_kind(recipe: Mapping[str, Any]) -> bool:
    stated = (recipe, *(recipe.get("pools") or ()))
    return any(str((entry.get("criteria") or {}).get("accelerator") or "") not in _ANY for entry in stated)


def _kinds(context: JudgeContext) -> dict[str, Accelerator]:
    """Return the GPU models of this release and those of the site's SKUs.

    A site's model replaces one of the same name.
    """
    own = {sku.gpu.name: sku.gpu for sku in context.hardware.values() if sku.gpu is not None}
    return load_accelerators() | own


def _products(name: str, seen: Readiness, context: JudgeContext) -> tuple[str, ...]:
    """Return every product name among the GPUs of a node; one GPU does not stand in for another.

    A GPU that reports no product is the empty string. Where no single GPU is listed, this is the product label of the
    node.
    """
    inventory = {host.node_name: host.name for host in context.site.hosts}
    host = seen.snapshot.hosts.get(inventory.get(name, name), Host())
    node = seen.snapshot.nodes.get(name, Node())
    devices = [device for device in node.devices.values() if device.get("type") == "gpu"]
    said = {gpu.product for gpu in host.gpus.values()} or {str(device.get("productName") or "") for device in devices}
    return tuple(sorted(said - {""} if len(said) == 1 else said)) or (gpu_product(node),)


def _kind(product: str, kinds: Mapping[str, Accelerator]) -> Accelerator | None:
    plain = product.replace("-", " ")
    return next(
        (kind for kind in kinds.values() for text in (product, plain) if re.search(kind.product_pattern, text)), None
    )


def _others(
    answer: Answer, asked: Asked, products: Mapping[str, tuple[str, ...]], kinds: Mapping[str, Accelerator]
) -> tuple[Outcome, ...]:
    groups: dict[tuple[str, str], list[str]] = {}
    for name, word in asked.items():
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
