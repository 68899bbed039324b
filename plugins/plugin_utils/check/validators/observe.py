# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs validator images: creates inputs, accounts and pods in a temporary namespace and follows them to their end."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.permission import Permission
from ...component_stack.facts import stack_facts
from ...outcome.errors import AbortedError, InputError
from ...runtime.files import RECIPES, write_atomic
from ...runtime.progress import Progress
from ...runtime.redaction import redact
from ...workload.follow import INDEX_LABEL, Ending, ObservedJob, all_run, ending_of
from ...workload.job import JobSpec
from ...workload.manifests import render
from ...workload.namespace import BASIC, MAKERS, MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.nodes import Toleration
from ...workload.pods import log_of_pod
from ..kit.tolerations import cluster_queue_of, tolerations_of
from ..spec import ObserveContext, Observer, observer_of
from .catalog import ValidatorImage
from .contract import CONTAINER, ValidatorRun, account_of, ended, key_of, log_path

# The upstream tool's default, for an entry without resources.
_RESOURCES = {"cpu": "1", "memory": "1Gi"}
# How long the tool waits for a validator beyond its timeout: it may end by itself and report that.
_SPARE_S = 30.0
_CLEANUP_S = 60.0
_POLL_S = 1.0
_RBAC = "rbac.authorization.k8s.io"
# Limit of an object: etcd's request limit is 1.5 MiB, and a ConfigMap holds 1 MiB (kubernetes.io, "ConfigMaps").
_MOST_BYTES = 1 << 20
# What an account needs to run validators, beside the validators' own permissions: RBAC requires that it has those too.
RIGHTS = (
    *BASIC,
    *(Permission("create", name) for name in ("pods", "configmaps", "serviceaccounts")),
    *(Permission("create", name, _RBAC) for name in ("roles", "rolebindings")),
)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a validator gets: snapshot and recipe as text, its run, and the node selector for pods that it makes
    itself."""

    snapshot: str
    recipe: str
    run_id: str
    node_selector: Mapping[str, str]


def validator_observers(
    validators: Sequence[ValidatorImage], phase: str, inputs: Inputs
) -> list[Observer[ValidatorRun]]:
    """Return an observer for each of these validators. The first that observes runs them all, at once."""
    known: list[dict[str, ValidatorRun] | Exception] = []

    def look(validator: ValidatorImage, context: ObserveContext) -> ValidatorRun:
        if not known:
            try:
                known.append(run_validators(validators, phase, inputs, context))
            except AbortedError:
                raise
            except Exception as error:  # noqa: BLE001 - one failure, also a crash, is that of all of them
                known.append(error)
        found = known[0]
        if isinstance(found, Exception):
            raise found
        return found[validator.name]

    return [observer_of(key_of(validator), ValidatorRun, partial(look, validator)) for validator in validators]


def run_validators(
    validators: Sequence[ValidatorImage], phase: str, inputs: Inputs, context: ObserveContext
) -> dict[str, ValidatorRun]:
    """Run validators at once, save their output, show their `RESULT:` lines, and remove the objects that they made.

    Returns:
        How each ended, by its name.

    Raises:
        InputError: an input does not fit into a ConfigMap.
        BringupError: the API server does not respond, or refuses the validators' objects.
    """
    for name, text in (("snapshot", inputs.snapshot), ("recipe", inputs.recipe)):
        if len(text.encode()) > _MOST_BYTES:
            size = f"has {len(text.encode()) >> 10} KiB, a ConfigMap holds {_MOST_BYTES >> 10}."
            raise InputError(f"{name} for validators", size, "leave them out: gpufleet_skip_checks")
    facts = stack_facts().test_pods
    found: dict[str, ValidatorRun] = {}
    with (
        Cluster(connection_from(context.connections)) as cluster,
        temporary_namespace(
            cluster,
            "validator",
            prefix=facts.namespace_prefix,
            priority=facts.priority,
            kinds=(),
            makers=MAKERS,
            cleanup_s=_CLEANUP_S,
            emit=context.emit,
            tolerations=tolerations_of(context),
            holder=context.holder,
            cluster_queue=cluster_queue_of(context),
        ) as namespace,
    ):
        namespace.create(input_objects(inputs, namespace))
        for validator in validators:
            namespace.create(validator_objects(validator, phase, inputs, namespace))
        endings = _followed(validators, namespace, Progress(context.emit))
        for validator in validators:
            pod, ending, took_s = endings[validator.name]
            log, unread = _log(namespace, pod)
            observed = ended(validator, pod, ending, redact(log), unread)
            found[validator.name] = replace(observed, duration_s=round(took_s, 3))
    for name, observed in found.items():
        write_atomic(context.run_dir / log_path(phase, name), "".join(f"{line}\n" for line in observed.lines))
        for line in observed.results:
            context.emit(f"{name}: {line}")
    return {name: replace(observed, leftovers=tuple(namespace.leftovers)) for name, observed in found.items()}


def input_objects(inputs: Inputs, namespace: TemporaryNamespace) -> list[Json]:
    """Return the ConfigMaps that the validators of a namespace read."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace.name, "labels": namespace.labels},
            "data": {f"{name}.yaml": text},
        }
        for name, text in (("snapshot", inputs.snapshot), ("recipe", inputs.recipe))
    ]


def validator_objects(
    validator: ValidatorImage, phase: str, inputs: Inputs, namespace: TemporaryNamespace
) -> list[Json]:
    """Return the account of a validator with its role, and its pod.

    Raises:
        InputError: the template does not render with these values.
    """
    spec = _spec(validator)
    values = {
        "name": account_of(validator.name),
        "namespace": namespace.name,
        # The index makes it the pod whose exit code counts (workload/follow.py).
        "pod_labels": {**namespace.labels, INDEX_LABEL: "0"},
        "image": validator.image,
        "container": CONTAINER,
        "args": list(validator.args),
        "env": {**validator.env, **_own(validator, phase, inputs, namespace.tolerations)},
        "account": account_of(validator.name) if validator.rules is not None else "",
        "resources": {**_RESOURCES, **validator.resources},
        "priority_class": namespace.priority_class,
        "tolerations": namespace.tolerated,
        "deadline_s": spec.pull_s + spec.placing_s + spec.timeout_s + MARGIN_S,
    }
    pod = render(RECIPES / "workloads" / "validator.yaml.j2", values)
    return [*_account(validator, namespace), *pod]


def _account(validator: ValidatorImage, namespace: TemporaryNamespace) -> list[Json]:
    """Return the account of a validator with its role, in this namespace only; empty for a validator without rules."""
    if validator.rules is None:
        return []
    name = account_of(validator.name)
    metadata = {"name": name, "namespace": namespace.name, "labels": namespace.labels}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [r.body for r in validator.rules]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def _own(validator: ValidatorImage, phase: str, inputs: Inputs, tolerations: tuple[Toleration, ...]) -> dict[str, str]:
    """Return the variables of the contract; the last two are for pods that the validator makes itself."""
    reported = {
        "AICR_SNAPSHOT_PATH": "/data/snapshot/snapshot.yaml",
        "AICR_RECIPE_PATH": "/data/recipe/recipe.yaml",
        "AICR_VALIDATOR_NAME": validator.name,
        "AICR_VALIDATOR_PHASE": phase,
        "AICR_RUN_ID": inputs.run_id,
        "AICR_CHECK_TIMEOUT": f"{validator.timeout_s:.0f}s",
        "AICR_NODE_SELECTOR": ",".join(f"{key}={value}" for key, value in sorted(inputs.node_selector.items())),
        # The contract needs an effect in every entry; a toleration of ours without one tolerates any effect.
        "AICR_TOLERATIONS": ",".join(
            f"{entry.key}={entry.value}:{effect}" if entry.value else f"{entry.key}:{effect}"
            for entry in tolerations
            for effect in ((entry.effect,) if entry.effect else ("NoSchedule", "NoExecute"))
        ),
    }
    return {name: value for name, value in reported.items() if value}


def _spec(validator: ValidatorImage) -> JobSpec:
    """Return the validator as a job, which has its time limits and the rules by which its end is recognised."""
    return JobSpec(
        name="validator", nodes=("any",), gpus_per_node=0, image=validator.image, command=(validator.name,),
        kind="plain-job", timeout_s=validator.timeout_s + _SPARE_S,
    )  # fmt: skip


def _followed(
    validators: Sequence[ValidatorImage], namespace: TemporaryNamespace, progress: Progress
) -> dict[str, tuple[Json, Ending, float]]:
    """Return, by validator, its pod as last observed, how it ended, and the seconds from its creation."""
    followed = {account_of(validator.name): _Followed(_spec(validator)) for validator in validators}
    begun, outage = time.monotonic(), namespace.cluster.transport.outage
    away_before_s = outage.away_s
    while True:
        pods = {pod["metadata"]["name"]: pod for pod in namespace.pods(labels=f"{INDEX_LABEL}=0")}
        for name, entry in followed.items():
            entry.look(pods.get(name), time.monotonic() - begun, outage.away_s - away_before_s)
        left = [name.removeprefix("v-") for name, entry in followed.items() if entry.ending is None]
        if not left:
            break
        progress.tick(f"validators: {len(left)} of {len(followed)} run: {', '.join(left)}"[:180])
        time.sleep(_POLL_S)
    return {
        validator.name: (entry.pod, entry.ending, entry.ended_s)
        for validator in validators
        if (entry := followed[account_of(validator.name)]).ending is not None
    }


@dataclass(slots=True)
class _Followed:
    """One validator while it runs."""

    spec: JobSpec
    pod: Json = field(default_factory=dict)
    ending: Ending | None = None
    ended_s: float = 0.0
    _running_at_s: float | None = None
    _gone_at_s: float | None = None

    def look(self, pod: Json | None, age_s: float, away_s: float) -> None:
        """Update it from the pod as listed now, None if it is not listed."""
        if self.ending is not None:
            return
        gone = [str(self.pod["metadata"]["name"])] if self.pod and pod is None else []
        if not gone:
            self._gone_at_s = None
        elif self._gone_at_s is None:
            self._gone_at_s = age_s
        gone_s = 0.0 if self._gone_at_s is None else age_s - self._gone_at_s
        pods = [pod] if pod is not None else []
        self.pod = pod if pod is not None else self.pod
        if self._running_at_s is None and all_run(self.spec, pods):
            self._running_at_s = age_s
        running_s = None if self._running_at_s is None else age_s - self._running_at_s
        observed = ObservedJob(pods=pods, age_s=age_s, running_s=running_s, gone=gone, gone_s=gone_s, away_s=away_s)
        self.ending, self.ended_s = ending_of(self.spec, observed), age_s


def _log(namespace: TemporaryNamespace, pod: Json) -> tuple[str, str]:
    """Return its output, and why that cannot be read."""
    if (pod.get("status") or {}).get("phase") not in ("Running", "Succeeded", "Failed"):
        return "", ""
    return log_of_pod(namespace, pod, CONTAINER)


def as_text(document: Any) -> str:
    """Return an input of a validator as JSON, which every YAML parser reads."""
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
