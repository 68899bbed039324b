# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evicting a pod: the deletion that disruption budgets may refuse.

Status 429 is a budget or an overloaded server, and only `causes` shows which. 500 with a certain message means that
two budgets select one pod (kubernetes/kubernetes, pkg/registry/core/pod/rest/eviction.go;
kubernetes.io/docs/concepts/scheduling-eviction/api-eviction).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .cluster import FIELD_MANAGER, Cluster
from .errors import error_of
from .objects import PODS

_BUDGET_CAUSE = "DisruptionBudget"
_BUDGET_NAME = re.compile(r"\bdisruption budget (\S{1,253}) (.{1,300})", re.DOTALL)
_TWO_BUDGETS = "more than one PodDisruptionBudget"
_TERMINATING = "NamespaceTerminating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """The response to an eviction. `accepted`: the pod ends, or is gone already. Otherwise `refused` is the reason.

    `budget` is the disruption budget (`namespace/name`) that refused it. With `for_good` a retry does not help.
    """

    accepted: bool
    refused: str = ""
    budget: str = ""
    for_good: bool = False


def evict(
    cluster: Cluster, name: str, namespace: str, *, uid: str = "", grace_s: int | None = None, dry_run: bool = False
) -> Eviction:
    """Request the eviction of a pod once.

    Args:
        cluster: the cluster.
        name: name of the pod.
        namespace: its namespace.
        uid: another pod that has taken the name is left alone.
        grace_s: its grace period in seconds; None for that of its specification.
        dry_run: the server responds and evicts nothing.

    Raises:
        BringupError: the server does not answer, or refuses for another reason than a budget.
    """
    options: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
    options |= {"gracePeriodSeconds": grace_s} if grace_s is not None else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options | ({"dryRun": ["All"]} if dry_run else {}),
    }
    path = PODS.path(name, namespace, "eviction")
    query: dict[str, str | int | bool] = {"fieldManager": FIELD_MANAGER}
    if dry_run:
        query["dryRun"] = "All"
    answer = cluster.transport.ask(
        "POST",
        path,
        query=query,
        body=body,
        repeatable=True,
        conflict_is_final=True,
        any_status_ok=lambda data: bool(_refusal(data)),
    )
    # 409: another pod has taken the name.
    if answer.ok or answer.status in (404, 409) or (answer.status == 403 and _TERMINATING in _causes(answer.data)):
        return Eviction(accepted=True)
    text = _refusal(answer.data)
    if not text:
        raise error_of(answer.status, "POST", path, "create", answer.data)
    found = _BUDGET_NAME.search(text)
    if found is None:
        return Eviction(accepted=False, refused=text, for_good=_TWO_BUDGETS in text)
    budget = f"{namespace}/{found[1]}"
    return Eviction(accepted=False, budget=budget, refused=f"disruption budget {budget} {found[2].rstrip('.')}")


def _refusal(data: bytes) -> str:
    """Return why a budget refuses an eviction. Empty if the response is about something else."""
    causes, status = _causes(data), _status(data)
    if _BUDGET_CAUSE in causes:
        return causes[_BUDGET_CAUSE] or str(status.get("message") or "a disruption budget")
    message = str(status.get("message") or "")
    return message.rstrip(".") if _TWO_BUDGETS in message else ""


def _causes(data: bytes) -> dict[str, str]:
    details = _status(data).get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return {
        str(cause.get("reason")): str(cause.get("message") or "") for cause in causes or [] if isinstance(cause, dict)
    }


def _status(data: bytes) -> dict[str, Any]:
    try:
        status = json.loads(data)
    except ValueError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}
