# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of a site as validators: their catalogue, their pods, and what each way to end means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from lease_cluster import MemoryCluster
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.catalog import (
    ValidatorImage,
    validator_image,
    validator_images,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.contract import (
    ValidatorRun,
    ended,
    judge_run,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.observe import (
    Inputs,
    _Followed,
    _spec,
    run_validators,
    validator_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Check as Entry
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import TOLD_S, Ending
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

IMAGE = "registry.example/acme/checks:v1"
STORAGE = {
    "name": "storage-burst",
    "phase": "conformance",
    "image": IMAGE,
    "timeout": "2m",
    "args": ["storage-burst"],
    "env": [{"name": "POOL", "value": "fast"}],
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
}
INPUTS = Inputs(
    snapshot='{"kind": "Snapshot"}\n', recipe='{"kind": "RecipeResult"}\n', run_id="r1", node_selector={"pool": "gpu"}
)


def entry(**changes: Any) -> Entry:
    data = {**STORAGE, **changes}
    return Entry(name=data["name"], phase=data["phase"], file="site/validators/catalog.yaml", data=data)


VALIDATOR = validator_image(entry())


def pod(phase: str = "Succeeded", terminated: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """A pod's status as a kubelet writes it (kubernetes.io, "Pod Lifecycle")."""
    states = [{"name": "validator", "state": {"terminated": terminated}}] if terminated is not None else []
    return {
        "metadata": {"name": "v-storage-burst", "labels": {"batch.kubernetes.io/job-completion-index": "0"}},
        "spec": {"nodeName": "cpu01"},
        "status": {"phase": phase, **({"containerStatuses": states} if states else {}), **status},
    }


def answer(seen: dict[str, Any], state: str, reason: str = "", log: str = "") -> Any:
    run = ended(VALIDATOR, seen, Ending(state, reason), log, "")  # type: ignore[arg-type]
    return judge_run(VALIDATOR, run, "lab", "gpu_stack", "evidence/conformance/storage-burst.log")


# What an API server says to who lacks a right (kubernetes/apiserver, pkg/endpoints/handlers/responsewriters/errors.go),
# and client-go to a pod without a token.
DENIED = (
    'nodes is forbidden: User "system:serviceaccount:gpufleet-test-validator-1:v-storage-burst" cannot list resource '
    '"nodes" in API group "" at the cluster scope'
)
NO_TOKEN = "open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory"
ENDS: list[tuple[str, dict[str, Any], str, Status, str]] = [
    ("passed", pod(terminated={"exitCode": 0, "reason": "Completed"}), "succeeded", Status.PASSED, ""),
    (
        "failed",
        pod("Failed", {"exitCode": 1, "reason": "Error", "message": "3 of 8 disks too slow"}),
        "failed",
        Status.FAILED,
        "validator-failed",
    ),
    ("skipped", pod("Failed", {"exitCode": 2, "reason": "Error"}), "failed", Status.SKIPPED, ""),
    ("another code", pod("Failed", {"exitCode": 3, "reason": "Error"}), "failed", Status.OTHER, "validator-broken"),
    (
        "killed for memory",
        pod("Failed", {"exitCode": 137, "reason": "OOMKilled"}),
        "failed",
        Status.OTHER,
        "validator-killed",
    ),
    (
        "a child killed for memory, and the image says failed",
        pod("Failed", {"exitCode": 1, "reason": "OOMKilled"}),
        "failed",
        Status.OTHER,
        "validator-killed",
    ),
    (
        "evicted, whatever its container said",
        pod("Failed", {"exitCode": 1, "reason": "Error"}, reason="Evicted", message="The node was low on resource"),
        "failed",
        Status.OTHER,
        "validator-killed",
    ),
    ("evicted without a container", pod("Failed", reason="Evicted"), "failed", Status.OTHER, "validator-killed"),
    (
        "its pod's deadline",
        pod("Failed", {"exitCode": 143, "reason": "Error"}, reason="DeadlineExceeded"),
        "failed",
        Status.OTHER,
        "validator-killed",
    ),
    ("succeeded without an exit code", pod(), "succeeded", Status.OTHER, "validator-broken"),
    ("its image is not there", pod("Pending"), "image", Status.OTHER, "image-not-pulled"),
    ("nobody places it", pod("Pending"), "unschedulable", Status.OTHER, "validator-not-placed"),
    ("it runs on", pod("Running"), "timeout", Status.OTHER, "validator-timeout"),
    ("its node went away", pod("Running"), "lost-node", Status.OTHER, "validator-lost"),
    (
        "somebody removes its pod, and it says failed as it is told to end",
        {
            **(_ended := pod("Failed", {"exitCode": 1, "reason": "Error", "message": "context canceled"})),
            "metadata": {**_ended["metadata"], "deletionTimestamp": "2026-11-23T08:00:00Z"},
        },
        "failed",
        Status.OTHER,
        "validator-lost",
    ),
    (
        "its account may not look at what it looks at",
        pod("Failed", {"exitCode": 1, "reason": "Error", "message": f"failed to list nodes: {DENIED}"}),
        "failed",
        Status.OTHER,
        "validator-forbidden",
    ),
    (
        "it has no account at all",
        pod("Failed", {"exitCode": 1, "message": f"failed to load context: {NO_TOKEN}"}),
        "failed",
        Status.OTHER,
        "validator-forbidden",
    ),
    (
        "another user may not, as its test wants it",
        pod("Failed", {"exitCode": 1, "message": DENIED.replace("v-storage-burst", "tenant")}),
        "failed",
        Status.FAILED,
        "validator-failed",
    ),
    ("a state of another release", pod(terminated={"exitCode": 0}), "fine", Status.OTHER, "validator-broken"),
]


@pytest.mark.parametrize(("seen", "state", "status", "cause"), [e[1:] for e in ENDS], ids=[e[0] for e in ENDS])
def test_each_way_to_end_has_its_answer(seen: dict[str, Any], state: str, status: Status, cause: str) -> None:
    found = answer(seen, state)
    assert (found.status, found.cause) == (status, cause)
    assert found.hint or status in (Status.PASSED, Status.SKIPPED)


def test_what_it_says_is_told_without_the_word_before_it_and_its_message_comes_first() -> None:
    log = "looking\nRESULT: burst 41 GB/s\nRESULT: 8 of 8 disks\n"
    passed = answer(pod(terminated={"exitCode": 0}), "succeeded", log=log)
    assert passed.summary == "burst 41 GB/s; 8 of 8 disks"
    assert passed.evidence[0].path == "evidence/conformance/storage-burst.log"
    failed = answer(pod("Failed", {"exitCode": 1, "message": "disk 3\n is slow"}), "failed", log=log)
    assert failed.summary == "disk 3 is slow"


def test_a_missing_right_is_read_from_the_output_only_where_there_is_no_message() -> None:
    """What it says in the end is its reason; on its way it may have tried what it is not allowed."""
    log = f"ERROR {DENIED}\n"
    silent = answer(pod("Failed", {"exitCode": 1}), "failed", log=log)
    assert (silent.status, silent.cause) == (Status.OTHER, "validator-forbidden")
    assert "nodes" in silent.summary and "rules" in silent.hint
    failed = answer(pod("Failed", {"exitCode": 1, "message": "3 of 8 disks too slow"}), "failed", log=log)
    assert (failed.status, failed.cause) == (Status.FAILED, "validator-failed")


def test_a_pod_that_somebody_removed_is_not_waited_for_until_its_time_is_over() -> None:
    """An eviction may take the object away between two looks: nothing says then how it ended."""
    followed = _Followed(_spec(VALIDATOR))
    running = pod("Running")
    followed.look(running, 5.0, 0.0)
    followed.look(None, 6.0, 0.0)
    assert followed.ending is None, "what the scheduler says of a pod that it took away may come later"
    followed.look(None, 6.0 + TOLD_S, 0.0)
    assert followed.ending is not None and followed.ending.state == "lost-node"
    back = _Followed(_spec(VALIDATOR))
    for age_s, seen in ((5.0, running), (6.0, None), (7.0, running), (6.0 + TOLD_S, running)):
        back.look(seen, age_s, 0.0)
    assert back.ending is None, "a list of a server that lags behind lacked it once"


def test_the_last_thousand_lines_are_kept_and_long_ones_cut() -> None:
    log = "\n".join(f"{n} {'x' * 600}" for n in range(1200))
    run = ended(VALIDATOR, pod(terminated={"exitCode": 0}), Ending("succeeded", ""), log, "")
    assert len(run.lines) == 1000 and run.lines[0].startswith("200 ") and {len(line) for line in run.lines} == {512}


def test_what_stays_behind_is_no_pass() -> None:
    run = ValidatorRun(name="storage-burst", image=IMAGE, state="succeeded", exit_code=0, leftovers=("namespace x",))
    assert judge_run(VALIDATOR, run, "lab", "gpu_stack", "").cause == "cleanup-incomplete"
    other = ValidatorRun(name="storage-burst", image="another:v1", state="succeeded", exit_code=0)
    assert judge_run(VALIDATOR, other, "lab", "gpu_stack", "").cause == "no-data"


def test_an_image_with_the_name_of_a_check_of_ours_is_not_run_and_told() -> None:
    entries = {
        "storage-burst": entry(),
        "dra-support": entry(name="dra-support"),
        "alias": entry(name="alias", image=""),
    }
    found, ours = validator_images(entries, {"dra-support", "gpu-census"})
    assert [image.name for image in found] == ["storage-burst"] and ours == ("dra-support",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "Storage_Burst"}, "no DNS label"),
        ({"phase": "readiness"}, "looks at a snapshot alone"),
        ({"image": "an image"}, "no name of an image"),
        ({"timeout": "long"}, "no duration"),
        ({"checks": ["gpu-census"]}, "an image and checks"),
        ({"env": [{"name": "AICR_RUN_ID", "value": "x"}]}, "cannot be set"),
        ({"env": [{"name": "API_TOKEN", "value": "hunter2hunter2"}]}, "holds a secret"),
        ({"env": ["POOL=fast"]}, "no name with a value"),
        ({"args": ["--password", "hunter2hunter2"]}, "hold a secret"),
        ({"resources": {"limits": {"cpu": {"a": 1}}}}, "no mapping of amounts"),
        ({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "no rule of a Role"),
        ({"rules": "all"}, "no list of rules"),
    ],
)
def test_an_entry_that_cannot_be_run_is_one_error_with_its_file(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        validator_image(entry(**changes))
    assert "site/validators/catalog.yaml" in error.value.subject


class Api(MemoryCluster):
    """A cluster whose kubelet plays pods: `play` gives the status of a pod and what its container writes."""

    def __init__(self, play: Callable[[dict[str, Any]], tuple[dict[str, Any], str]]) -> None:
        super().__init__()
        self.play = play
        self.written: dict[str, str] = {}
        self.transport = SimpleNamespace(outage=Outage(0.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def kind(self, api_version: str, kind: str) -> Kind:
        return Kind(api_version, kind, f"{kind.lower()}s")

    def create(self, kind: Kind, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        if kind.kind == "Pod":
            status, self.written[body["metadata"]["name"]] = self.play(body)
            body = {**body, "spec": {**body["spec"], "nodeName": "cpu01"}, "status": status}
        return super().create(kind, body, namespace)

    def logs(self, name: str, _namespace: str, **_more: Any) -> str:
        return self.written[name]


def namespace_in(api: Api) -> TemporaryNamespace:
    found = TemporaryNamespace(api.api, "gpufleet-test-validator-1", 10.0, ())
    api.create(NAMESPACES, {"metadata": {"name": found.name}})
    return found


def by_kind(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {obj["kind"]: obj for obj in objects}


def test_its_pod_has_the_inputs_and_words_of_the_contract_and_rights_in_its_namespace_alone() -> None:
    namespace = namespace_in(Api(lambda _pod: ({}, "")))
    made = by_kind(validator_objects(VALIDATOR, "conformance", INPUTS, namespace))
    assert set(made) == {"ServiceAccount", "Role", "RoleBinding", "Pod"}
    assert {obj["metadata"]["namespace"] for obj in made.values()} == {namespace.name}
    assert made["Role"]["rules"] == STORAGE["rules"]
    assert made["RoleBinding"]["roleRef"]["kind"] == "Role"
    spec = made["Pod"]["spec"]
    container = spec["containers"][0]
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert env.pop("AICR_TOLERATIONS").startswith("nvidia.com/gpu:NoSchedule,nvidia.com/gpu:NoExecute,sku=gpu:")
    assert env == {
        "POOL": "fast",
        "AICR_SNAPSHOT_PATH": "/data/snapshot/snapshot.yaml",
        "AICR_RECIPE_PATH": "/data/recipe/recipe.yaml",
        "AICR_VALIDATOR_NAME": "storage-burst",
        "AICR_VALIDATOR_PHASE": "conformance",
        "AICR_RUN_ID": "r1",
        "AICR_NAMESPACE": None,
        "AICR_CHECK_TIMEOUT": "120s",
        "AICR_NODE_SELECTOR": "pool=gpu",
    }
    assert container["args"] == ["storage-burst"] and "command" not in container
    assert container["terminationMessagePath"] == "/dev/termination-log"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"snapshot": "/data/snapshot", "recipe": "/data/recipe"}
    # 120 s, 30 s to end by itself, and the time of scheduler, registry and a controller that died.
    assert spec["activeDeadlineSeconds"] > 150 and spec["restartPolicy"] == "Never"
    assert spec["serviceAccountName"] == made["ServiceAccount"]["metadata"]["name"]


def test_an_image_without_rules_has_no_account_and_no_token() -> None:
    validator = validator_image(entry(rules=None))
    (made,) = validator_objects(validator, "conformance", INPUTS, namespace_in(Api(lambda _pod: ({}, ""))))
    assert made["spec"]["automountServiceAccountToken"] is False and "serviceAccountName" not in made["spec"]


@contextmanager
def _namespace(api: Api) -> Iterator[TemporaryNamespace]:
    found = namespace_in(api)
    yield found
    found.close()


def run_in(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *validators: ValidatorImage, inputs: Inputs = INPUTS
) -> tuple[dict[str, ValidatorRun], list[str]]:
    told: list[str] = []
    monkeypatch.setattr(observe, "Cluster", lambda _connection: api)
    monkeypatch.setattr(observe, "temporary_namespace", lambda *_a, **_k: _namespace(api))
    settings = {"gpu_stack": {"tolerations": [], "cluster_queue": ""}}
    context = ObserveContext(
        site=make_site(settings=settings), run_dir=tmp_path, today=date(2026, 11, 23), emit=told.append
    )
    return run_validators(validators, "conformance", inputs, context), told


def test_images_are_played_to_their_end_at_once_and_nothing_of_them_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def play(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        data = {key[2]: obj["data"] for key, obj in api.objects.items() if key[0] == "ConfigMap"}
        seen[body["metadata"]["name"]] = data
        failed = body["metadata"]["name"].endswith("second")
        return pod("Failed" if failed else "Succeeded", {"exitCode": int(failed)})["status"], "RESULT: 41 GB/s\n"

    api = Api(play)
    second = validator_image(entry(name="second"))
    runs, told = run_in(api, monkeypatch, tmp_path, VALIDATOR, second)
    assert {name: run.exit_code for name, run in runs.items()} == {"storage-burst": 0, "second": 1}
    assert seen["v-storage-burst"]["snapshot"] == {"snapshot.yaml": INPUTS.snapshot}
    assert seen["v-second"]["recipe"] == {"recipe.yaml": INPUTS.recipe}
    assert "storage-burst: 41 GB/s" in told
    assert (tmp_path / "evidence/conformance/second.log").read_text() == "RESULT: 41 GB/s\n"
    assert {kind for kind, _namespace, _name in api.objects if kind in ("Pod", "Namespace")} == set()


def test_an_input_that_no_config_map_holds_is_an_error_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = Api(lambda _pod: ({}, ""))
    large = Inputs(snapshot=json.dumps("x" * (1 << 20)), recipe="{}", run_id="r1", node_selector={})
    with pytest.raises(BringupError, match="a ConfigMap holds 1024"):
        run_in(api, monkeypatch, tmp_path, VALIDATOR, inputs=large)
    assert not api.objects
