# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a test job: what a cluster needs to know is in them, and nothing that would hurt others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from crd_schema import crd_schema

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.network import pod_network
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.network import network_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec, PodNeeds, Sidecar
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import (
    access_objects,
    domain_objects,
    job_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

COMMAND = ("/opt/all_reduce_perf", "-b", "8", 'it\'s "quoted" {{ no template }}')
SPEC = JobSpec(
    name="pair", nodes=("gpu01", "gpu02"), gpus_per_node=8, image="host/nccl:1", command=COMMAND,
    env={"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}, limits={"rdma/x": "1"},
)  # fmt: skip
# Workloads whose pods are root: images made for it, sshd, and locked memory; a site's own images have the user that
# whoever made them chose.
ROOT = ("job-gang", "job-torchrun", "mpijob", "validator", "vllm")
GROUPS = {
    "native": "scheduling.k8s.io/v1alpha2",
    "volcano": "scheduling.volcano.sh/v1beta1",
    "kai-scheduler": "scheduling.run.ai/v2alpha2",
}


def space() -> TemporaryNamespace:
    return TemporaryNamespace(cast(Any, None), "test-nccl-abc", 60.0, ())


@pytest.mark.parametrize(("gang", "api_version"), GROUPS.items())
def test_a_gang_is_one_group_and_one_indexed_job(gang: str, api_version: str) -> None:
    group, job = job_objects(replace(SPEC, gang=gang), space())
    assert (group["apiVersion"], group["kind"], job["kind"]) == (api_version, "PodGroup", "Job")
    smallest = group["spec"].get("minMember") or group["spec"]["schedulingPolicy"]["gang"]["minCount"]
    assert smallest == job["spec"]["parallelism"] == job["spec"]["completions"] == 2
    pod = job["spec"]["template"]
    assert pod["spec"]["schedulerName"] == ("default-scheduler" if gang == "native" else gang)
    named = [pod["spec"].get("schedulingGroup", {}).get("podGroupName"), *pod["metadata"]["annotations"].values()]
    assert "pair" in named
    assert "nodeName" not in pod["spec"]
    assert pod["spec"]["priorityClassName"] == "test-nccl-abc"
    container = pod["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8, "rdma/x": "1"}
    assert tuple(container["command"][-4:]) == COMMAND
    assert "-np 16 " in container["command"][2] and "-x NCCL_DEBUG -x NCCL_IB_HCA" in container["command"][2]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env["HOSTS"] == "pair-0.ranks:8,pair-1.ranks:8"
    assert env["PEERS"] == "pair-1.ranks"
    assert env["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"


def test_a_plain_job_has_the_files_of_a_config_map() -> None:
    (job,) = job_objects(replace(SPEC, kind="plain-job", nodes=SPEC.nodes[:1], config_map="aiperf-lock"), space())
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "config", "configMap": {"name": "aiperf-lock"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "config", "mountPath": "/etc/program", "readOnly": True}]


def test_a_plain_job_may_bring_its_files_and_claim_its_gpus() -> None:
    spec = replace(
        SPEC, kind="plain-job", nodes=SPEC.nodes[:1], files={"a.py": "pass"}, requests={"memory": "1Gi"}, limits={}
    )
    files, job = job_objects(spec, space())
    assert (files["kind"], files["metadata"]["name"], files["data"]) == ("ConfigMap", SPEC.name, {"a.py": "pass"})
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "config", "configMap": {"name": SPEC.name}}]
    assert pod["containers"][0]["resources"] == {"requests": {"memory": "1Gi"}, "limits": {"nvidia.com/gpu": 8}}
    *_others, job = job_objects(replace(spec, device_class="gpu.nvidia.com", files={}), space())
    pod = job["spec"]["template"]["spec"]
    assert pod["resourceClaims"] and pod["containers"][0]["resources"]["claims"]
    assert "limits" not in pod["containers"][0]["resources"]


def test_an_image_may_have_a_digest() -> None:
    image = "registry.example:5000/nccl-tests:12.8@sha256:" + "0f" * 32
    job = job_objects(replace(SPEC, image=image, gang="none"), space())[-1]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize("kind", ["gang-job", "torchrun", "mpijob"])
def test_pods_may_be_privileged_in_the_network_of_their_node(kind: str) -> None:
    """As Nebius and OCI run them, whose nodes offer no resource for adapters."""
    for wanted in (True, False):
        spec = replace(SPEC, kind=kind, gang="none", limits={}, privileged=wanted, host_network=wanted)  # type: ignore[arg-type]
        job = job_objects(spec, space())[-1]
        pod = job["spec"]["mpiReplicaSpecs"]["Worker"] if kind == "mpijob" else job["spec"]
        pod = pod["template"]["spec"]
        assert bool(pod["containers"][0]["securityContext"].get("privileged")) is wanted
        assert (pod.get("hostNetwork", False), pod.get("dnsPolicy")) == (
            wanted,
            "ClusterFirstWithHostNet" if wanted else None,
        )


@pytest.mark.parametrize("path", sorted(RECIPES.joinpath("workloads").glob("*.yaml.j2")), ids=lambda path: path.stem)
def test_no_container_keeps_rights_that_it_does_not_need(path: Path) -> None:
    """Whoever needs root, or a seccomp profile of the cluster, says why."""
    text = path.read_text(encoding="utf-8")
    containers = len(re.findall(r"^ +image: ", text, re.MULTILINE))
    assert text.count("drop: [ALL]") == text.count("allowPrivilegeEscalation: false") == containers
    if not containers:
        return
    assert "automountServiceAccountToken: false" in text
    # The one that a site states is no root either: StorageSettings.user.
    user = "{{ user }}" if "runAsUser: {{ user }}" in text else "65534"
    rootless = f"runAsNonRoot: true, runAsUser: {user}, seccompProfile: {{type: RuntimeDefault}}" in text
    assert rootless is (path.name.removesuffix(".yaml.j2") not in ROOT), "a pod of ours is root where it has to be"
    assert rootless or "# Root" in text


@pytest.mark.parametrize(
    ("kind", "added"),
    [
        ("plain-job", set()),
        ("torchrun", {"IPC_LOCK"}),
        # Measured with OpenSSH 9.2: without SYS_CHROOT, SETUID and SETGID it ends before the key is looked at.
        ("gang-job", {"IPC_LOCK", "SETUID", "SETGID", "SYS_CHROOT", "AUDIT_WRITE"}),
        ("mpijob", {"IPC_LOCK", "SETUID", "SETGID", "SYS_CHROOT", "AUDIT_WRITE"}),
    ],
)
def test_ranks_have_the_capabilities_that_they_need_and_no_other(kind: str, added: set[str]) -> None:
    nodes = SPEC.nodes[:1] if kind == "plain-job" else SPEC.nodes
    job = job_objects(replace(SPEC, kind=kind, nodes=nodes, gang="none", limits={}), space())[-1]  # type: ignore[arg-type]
    pod = job["spec"]["mpiReplicaSpecs"]["Worker"] if kind == "mpijob" else job["spec"]
    context = pod["template"]["spec"]["containers"][0]["securityContext"]
    assert context["allowPrivilegeEscalation"] is False and context["capabilities"]["drop"] == ["ALL"]
    assert set(context["capabilities"].get("add", ())) == added


def test_one_node_needs_no_peer_and_a_job_may_go_without_a_gang() -> None:
    (job,) = job_objects(replace(SPEC, nodes=("gpu01",), gang="none", limits={}, env={}), space())
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {"HOSTS": "pair-0.ranks:8", "PEERS": ""}
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}


@pytest.mark.parametrize("kind", ["gang-job", "torchrun", "mpijob"])
def test_gpus_by_claim_are_not_asked_of_the_device_plugin(kind: Any) -> None:
    objects = job_objects(replace(SPEC, kind=kind, gang="none", device_class="gpu.nvidia.com"), space())
    claim = next(obj for obj in objects if obj["kind"] == "ResourceClaimTemplate")
    exactly = claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["deviceClassName"], exactly["count"]) == ("gpu.nvidia.com", 8)
    spec = objects[-1]["spec"]
    pod = spec["template"]["spec"] if kind != "mpijob" else spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == claim["metadata"]["name"] == "pair-gpus"
    resources = pod["containers"][0]["resources"]
    assert (resources["claims"], resources["limits"]) == ([{"name": "gpus"}], {"rdma/x": "1"})


@pytest.mark.parametrize("by_claim", [False, True])
@pytest.mark.parametrize("kind", ["gang-job", "torchrun", "mpijob"])
def test_hosts_of_a_rack_share_gpu_memory_by_a_compute_domain(kind: Any, by_claim: bool, shared: Path) -> None:
    """The DRA driver makes its claim template, so only the name is given (kubernetes-sigs/dra-driver-nvidia-gpu)."""
    import jsonschema

    device_class = "gpu.nvidia.com" if by_claim else ""
    spec = replace(SPEC, kind=kind, gang="none", device_class=device_class, compute_domain=True)
    objects, (domain,) = job_objects(spec, space()), domain_objects(space())
    jsonschema.validate(domain, crd_schema(shared, "k8s-dra-driver-gpu/computedomains.resource.nvidia.com", "v1beta1"))
    assert domain["metadata"]["namespace"] == "test-nccl-abc"
    job = next(obj for obj in objects if obj["kind"] in ("Job", "MPIJob"))["spec"]
    pod = (job["mpiReplicaSpecs"]["Worker"] if kind == "mpijob" else job)["template"]["spec"]
    names = ["gpus", "imex"] if by_claim else ["imex"]
    template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert [claim["name"] for claim in pod["resourceClaims"]] == names
    assert pod["resourceClaims"][-1]["resourceClaimTemplateName"] == template
    resources = pod["containers"][0]["resources"]
    assert resources["claims"] == [{"name": name} for name in names]
    assert ("nvidia.com/gpu" in resources["limits"]) is not by_claim


NEEDS = PodNeeds(
    host_paths={"lib": "/opt/lib", "sys": "/sys"}, mounts={"lib": "/lib64"},
    sidecar=Sidecar(name="daemon", image="host/daemon:1", command=("run", "--a b"), env={"A": "1"},
                    mounts={"lib": "/lib64", "sys": "/hostsysfs"}, capabilities=("NET_ADMIN",)),
)  # fmt: skip


@pytest.mark.parametrize("kind", ["gang-job", "torchrun", "mpijob"])
def test_a_sidecar_starts_before_the_ranks_and_ends_with_them(kind: Any) -> None:
    def pod_of(needs: PodNeeds) -> dict[str, Any]:
        job = job_objects(replace(SPEC, kind=kind, gang="none", needs=needs), space())[-1]["spec"]
        pod = (job["mpiReplicaSpecs"]["Worker"] if kind == "mpijob" else job)["template"]["spec"]
        return cast(dict[str, Any], pod)

    pod = pod_of(NEEDS)
    (sidecar,) = pod["initContainers"]
    assert (sidecar["name"], sidecar["image"], sidecar["restartPolicy"]) == ("daemon", "host/daemon:1", "Always")
    assert sidecar["command"] == ["run", "--a b"]
    assert sidecar["securityContext"] == {"capabilities": {"add": ["NET_ADMIN"]}}
    assert "resources" not in sidecar and "startupProbe" not in sidecar
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["sys"] == {"name": "sys", "hostPath": {"path": "/sys"}}
    (ranks,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in ranks["volumeMounts"]}
    assert mounts["lib"] == "/lib64" and "sys" not in mounts
    assert {mount["name"] for mount in (*ranks["volumeMounts"], *sidecar["volumeMounts"])} <= volumes.keys()
    assert not {"initContainers"} & pod_of(PodNeeds()).keys()


@pytest.mark.parametrize("fabric", ["tcpx", "tcpxo"])
def test_pods_on_tcp_have_the_daemon_that_reaches_their_gpus(fabric: str) -> None:
    """Against what GoogleCloudPlatform/container-engine-accelerators has in nccl-test-latest.yaml of each."""
    settings = network_settings(checked_settings(FabricValidationSettings, "fabric_validation", {}))
    hosts = [BenchmarkHost(name=name, node=name, sku="a3") for name in ("a", "b")]
    network = pod_network(hosts, settings, gang="none", fabric=cast(Any, fabric))
    (job,) = job_objects(replace(SPEC, env=network["needs"].env, **network), space())
    pod, notes = job["spec"]["template"]["spec"], job["spec"]["template"]["metadata"]["annotations"]
    (sidecar,), (ranks,) = pod["initContainers"], pod["containers"]
    assert sidecar["name"] == f"{fabric}-daemon"
    devices = [line.split()[-1] for line in notes[f"devices.gke.io/container.{fabric}-daemon"].splitlines()]
    assert [f"/dev/nvidia{n}" for n in range(8)] == devices[:8] and "/dev/nvidia-uvm" in devices
    interfaces = json.loads(notes["networking.gke.io/interfaces"])
    count = {"tcpx": 4, "tcpxo": 8}[fabric]
    assert [entry["interfaceName"] for entry in interfaces] == [f"eth{n}" for n in range(count + 1)]
    env = {entry["name"]: entry["value"] for entry in ranks["env"]}
    used = env[{"tcpx": "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "tcpxo": "NCCL_FASTRAK_IFNAME"}[fabric]]
    assert used.split(",") == [f"eth{n}" for n in range(1, count + 1)]
    mounted = {mount["mountPath"] for mount in ranks["volumeMounts"]}
    assert env["LD_LIBRARY_PATH"] in mounted
    assert "/tmp" not in mounted, "a launcher's pods tell each other there that it has ended"
    assert "NET_ADMIN" in sidecar["securityContext"]["capabilities"]["add"]
    assert ("startupProbe" in sidecar) is (fabric == "tcpxo")
    names = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in (*ranks["volumeMounts"], *sidecar["volumeMounts"])} <= names


@pytest.mark.parametrize("env", [SPEC.env, {}])
def test_an_mpijob_is_what_its_own_schema_wants(shared: Path, env: dict[str, str]) -> None:
    import jsonschema

    (job,) = job_objects(replace(SPEC, kind="mpijob", gang="volcano", env=env), space())
    jsonschema.validate(job, crd_schema(shared, "mpi-operator/mpijobs.kubeflow.org", "v2beta1"))
    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert tuple(launcher["command"][-4:]) == COMMAND and "resources" not in launcher


def test_a_space_has_a_key_of_its_own() -> None:
    service, secret = access_objects(space())
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert secret["stringData"]["key"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert secret["stringData"]["known_hosts"] == "* " + secret["stringData"]["authorized_keys"]
    assert access_objects(space())[1]["stringData"]["key"] != secret["stringData"]["key"]


def test_a_training_brings_its_program_and_its_ranks_meet_at_index_0() -> None:
    program = "import os\nprint(f'{os.name} {{ no template }}')\n"
    spec = replace(
        SPEC, kind="torchrun", gang="volcano", command=("/etc/program/train.py", "--steps", "5"),
        files={"train.py": program}, requests={"memory": "64Gi"},
    )  # fmt: skip
    group, config, job = job_objects(spec, space())
    assert (group["kind"], group["spec"]["minMember"]) == ("PodGroup", 2)
    assert config["data"] == {"train.py": program}
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["command"] == ["python3", "/etc/program/begin.py"]
    assert container["args"][:2] == ["--nnodes=2", "--nproc-per-node=8"]
    assert container["args"][-3:] == [*spec.command]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env == {"MEETING": "pair-0.ranks", **SPEC.env}
    assert container["resources"] == {
        "requests": {"memory": "64Gi"},
        "limits": {"nvidia.com/gpu": 8, "rdma/x": "1"},
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"shm": "/dev/shm", "program": "/etc/program"}
    assert {volume["name"]: volume for volume in pod["volumes"]}["program"]["configMap"] == {"name": "pair"}
