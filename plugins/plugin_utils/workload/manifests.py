# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The objects of a test job: rendered templates of recipes/workloads/, and volumes that nodes have already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError, NotFoundError
from ..runtime.files import RECIPES
from ..runtime.foreign_yaml import documents
from .capacity import claim_variables, gpu_requests, split_limits
from .job import CONFIG_DIR, DATA_DIR, JobSpec, PodNeeds
from .namespace import TemporaryNamespace

if TYPE_CHECKING:
    from jinja2 import Template

# Renders a template of recipes/workloads/ to Kubernetes objects, of the kinds that tests use and no others.
#
# Whoever may set `gpufleet_settings` decides what is filled into the slots, and the objects are created with the
# controller's rights. So a slot takes a number, text that the template quotes with `tojson`, or a word that has no
# meaning for YAML and for a shell. And an object is of a kind that a test needs.

# By API group, without versions: these follow the cluster.
KINDS = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Pod"),
        ("", "Secret"),
        ("", "Service"),
        ("apps", "Deployment"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "Job"),
        ("kubeflow.org", "MPIJob"),
        ("monitoring.coreos.com", "AlertmanagerConfig"),
        ("monitoring.coreos.com", "PrometheusRule"),
        ("ray.io", "RayCluster"),
        ("resource.k8s.io", "ResourceClaim"),
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("resource.nvidia.com", "ComputeDomain"),
        ("scheduling.k8s.io", "PodGroup"),
        ("scheduling.run.ai", "PodGroup"),
        ("scheduling.x-k8s.io", "PodGroup"),
        ("scheduling.volcano.sh", "PodGroup"),
    }
)
_COMPILED = 64
_WORD = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_./:@-]*[A-Za-z0-9_])?)?")


def render(template: Path, variables: dict[str, Any]) -> list[dict[str, Any]]:
    """Render a template and return its Kubernetes objects in order.

    Raises:
        NotFoundError: there is no such template.
        InputError: it uses a variable without a value, a value for a slot is more than a word, or it does not render to
            objects of a test.
    """
    from jinja2 import TemplateError

    try:
        text = template.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFoundError(f"template {template}", f"cannot be read: {error.strerror}.") from None
    try:
        found = documents(_compiled(template, text).render(variables))
    except TemplateError as error:
        raise InputError(f"template {template}", f"does not render: {error}.", "correct the template") from None
    except ValueError as error:
        raise InputError(f"template {template}", f"does not render to YAML: {error}.", "correct the template") from None
    objects = [document for document in found if document is not None]
    if not objects or not all(isinstance(obj, dict) and {"apiVersion", "kind"} <= obj.keys() for obj in objects):
        raise InputError(f"template {template}", "does not render to Kubernetes objects.", "correct the template")
    for obj in objects:
        if (group_of(str(obj["apiVersion"])), obj["kind"]) not in KINDS:
            reason = f"makes a {obj['kind']} of {obj['apiVersion']}, which no test needs."
            raise InputError(
                f"template {template}", reason, f"kinds: {', '.join(sorted({kind for _group, kind in KINDS}))}"
            )
    return objects


@lru_cache(maxsize=_COMPILED)
def _compiled(template: Path, text: str) -> Template:
    """Return a compiled template. Compiling is the slowest step, and a gate renders the same template for every node.

    Raises:
        TemplateError: the text is no template.
    """
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=lambda value: _filled(template, value)
    )
    return environment.from_string(text)


def group_of(api_version: str) -> str:
    """Return the API group of `group/version`. The core group is empty."""
    return api_version.rpartition("/")[0]


def _filled(template: Path, value: Any) -> Any:
    """Check the value for a slot and return it, as Jinja's `finalize`.

    Raises:
        InputError: it is text that could be more than a word.
    """
    from markupsafe import Markup

    if isinstance(value, (int, float, Markup)) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    if type(value).__name__ == "StrictUndefined":
        # Jinja's own error names the missing variable.
        return value
    shown = str(value)[:80]
    raise InputError(
        f"template {template.name}",
        f"would be given {shown!r}, which is no plain word.",
        "correct the setting that it comes from: letters, digits and _ . / : @ -",
    )


# The objects of a test job.

ACCESS = "ranks"
JOB_LABEL = "gpufleet.io/job"
# A sidecar that is not ready after the latest time is restarted.
_READY_EVERY_S, _READY_LATEST_S = 5, 180
Json = dict[str, Any]
_IMEX = ({"name": "imex", "resourceClaimTemplateName": f"{ACCESS}-imex"},)
_TEMPLATES = RECIPES / "workloads"
_FILES = {
    "gang-job": "job-gang.yaml.j2",
    "mpijob": "mpijob.yaml.j2",
    "plain-job": "job-plain.yaml.j2",
    "torchrun": "job-torchrun.yaml.j2",
    "ranks": "job-ranks.yaml.j2",
}


def job_objects(spec: JobSpec, namespace: TemporaryNamespace) -> list[dict[str, Any]]:
    """Return the objects of a job, its pod group before its pods.

    Raises:
        InputError: the template does not render with these values.
    """
    limits, adapters = split_limits(spec.limits)
    requests = (*gpu_requests(spec.device_class, spec.gpus_per_node), *adapters)
    pod_labels = {**namespace.labels, JOB_LABEL: spec.name}
    variables: dict[str, Any] = {
        "name": spec.name,
        "namespace": namespace.name,
        "nodes": list(spec.nodes),
        "gpus": spec.gpus_per_node,
        "image": spec.image,
        "command": list(spec.command),
        "env": dict(spec.env),
        "labels": namespace.labels,
        "priority_class": namespace.priority_class,
        "tolerations": namespace.tolerated,
        "gang": spec.gang,
        "queue": spec.queue,
        "limits": limits,
        "privileged": spec.privileged,
        "host_network": spec.host_network,
        "plugin_gpus": 0 if spec.device_class else spec.gpus_per_node,
        **claim_variables(spec.name, namespace.name, pod_labels, requests, _IMEX if spec.compute_domain else ()),
        "annotations": dict(spec.annotations),
        "volumes": _volumes(spec.needs),
        "mounts": _mounts(spec.needs.mounts),
        "sidecars": _sidecars(spec.needs),
        "shm_gib": spec.shm_gib,
        "deadline_s": spec.placing_s + spec.pull_s + spec.timeout_s,
        "access": ACCESS,
        "volume": dict(spec.volume),
        "data": dict(spec.data),
        "data_dir": DATA_DIR,
        "user": spec.user,
        "secret_env": dict(spec.secret_env),
        "files": dict(spec.files),
        "requests": dict(spec.requests),
        "config_map": spec.config_map,
        "config_dir": CONFIG_DIR,
    }
    return render(_TEMPLATES / _FILES[spec.kind], variables)


def _volumes(needs: PodNeeds) -> list[Json]:
    return [{"name": name, "hostPath": {"path": path}} for name, path in needs.host_paths.items()]


def _mounts(mounts: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "mountPath": path} for name, path in mounts.items()]


def _sidecars(needs: PodNeeds) -> list[Json]:
    """Return the container that runs beside the ranks.

    It is an init container that keeps running (KEP-753): it starts before the ranks, and a pod whose ranks have
    ended ends it.
    """
    sidecar = needs.sidecar
    if sidecar is None:
        return []
    found: Json = {
        "name": sidecar.name,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "command": list(sidecar.command),
        "env": [{"name": key, "value": value} for key, value in sidecar.env.items()],
        "securityContext": {"capabilities": {"add": list(sidecar.capabilities)}},
        "volumeMounts": _mounts(sidecar.mounts),
    }
    if sidecar.ready_file:
        found["startupProbe"] = {
            "exec": {"command": ["cat", sidecar.ready_file]},
            "periodSeconds": _READY_EVERY_S,
            "failureThreshold": _READY_LATEST_S // _READY_EVERY_S,
        }
    return [found]


def access_objects(namespace: TemporaryNamespace) -> list[dict[str, Any]]:
    """Return the Service and the SSH key with which the pods of a namespace's jobs reach each other. The key is new."""
    private, public = _new_key()
    variables: dict[str, Any] = {
        "access": ACCESS, "namespace": namespace.name, "labels": namespace.labels, "private_key": private,
        "public_key": public,
    }  # fmt: skip
    return render(_TEMPLATES / "job-gang-access.yaml.j2", variables)


def domain_objects(namespace: TemporaryNamespace) -> list[dict[str, Any]]:
    """Return the ComputeDomain through which the pods of a namespace's jobs share GPU memory."""
    variables: dict[str, Any] = {"access": ACCESS, "namespace": namespace.name, "labels": namespace.labels}
    return render(_TEMPLATES / "compute-domain.yaml.j2", variables)


def _new_key() -> tuple[str, str]:
    # Ansible itself needs this library, so it is installed.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode()


# The volume of a job where no pod mounts it: a directory that the nodes have already.
# `:` and `,` separate mounts of Pyxis, and paths of shared mounts need no other characters than these.
_PLAIN = re.compile(r"/[A-Za-z0-9._/@+-]+")


def plain_path(path: str) -> bool:
    """Tell whether a path is absolute and of plain characters, so that it is one word for every program."""
    return bool(_PLAIN.fullmatch(path)) and ".." not in path.split("/")


def data_directory(source: Mapping[str, Any]) -> str:
    """Return the directory of the nodes that a volume source names.

    Raises:
        InputError: it names none, or its path is not plain.
    """
    path = (source.get("hostPath") or {}).get("path") if isinstance(source.get("hostPath"), Mapping) else None
    if not isinstance(path, str) or not plain_path(path):
        reported = f"is {', '.join(sorted(source)) or 'empty'}, and jobs of Slurm mount nothing."
        hint = "state the directory where all nodes have it: volume={hostPath: {path: /shared}}"
        raise InputError("volume", reported, hint)
    return path
