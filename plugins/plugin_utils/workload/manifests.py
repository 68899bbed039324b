# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The objects of a test job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..runtime.recipe_files import RECIPES
from .claims import claim_variables, gpu_requests, split_limits
from .model import CONFIG_DIR, DATA_DIR, JobSpec, PodNeeds
from .namespace import TemporaryNamespace
from .render import render

ACCESS = "ranks"
JOB_LABEL = "gpufleet.io/job"
# A sidecar that is not ready by then is started again.
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
    """Return the objects of a job, its group before its pods.

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
    """Return the container that runs beside the ranks: an init container that goes on (KEP-753), so that it starts
    before them, and that a pod whose ranks have ended ends."""
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
    """Return what the pods of a namespace's jobs reach each other by, with a key that nobody else has."""
    private, public = _new_key()
    variables: dict[str, Any] = {
        "access": ACCESS, "namespace": namespace.name, "labels": namespace.labels, "private_key": private,
        "public_key": public,
    }  # fmt: skip
    return render(_TEMPLATES / "job-gang-access.yaml.j2", variables)


def domain_objects(namespace: TemporaryNamespace) -> list[dict[str, Any]]:
    """Return what the pods of a namespace's jobs share GPU memory by."""
    variables: dict[str, Any] = {"access": ACCESS, "namespace": namespace.name, "labels": namespace.labels}
    return render(_TEMPLATES / "compute-domain.yaml.j2", variables)


def _new_key() -> tuple[str, str]:
    # Ansible itself needs this library, so it is there.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode()
