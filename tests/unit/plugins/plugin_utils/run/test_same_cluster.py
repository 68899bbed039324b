# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen in another cluster than the run's is no evidence, and nothing is started there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import (
    observation_path,
    observe,
    saved_observation,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext, observer_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run import same_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import observe_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

SEEN = observer_of("seen", dict, lambda _context: {"nodes": 2})


class Api:
    """An API server with this UID; without one, this user may not read it."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self.transport = type("Transport", (), {"host": "https://api"})

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def get(self, _kind: object, _name: str) -> dict[str, Any]:
        if not self._uid:
            raise BringupError("Kubernetes API get namespaces", "user may not.", "")
        return {"metadata": {"uid": self._uid}}


def seen_in(run_dir: Path, uid: str | None) -> Path:
    context = ObserveContext(site=make_site(), run_dir=run_dir, today=date(2026, 11, 22), cluster_uid=uid)
    observe(SEEN, "telemetry", context)
    return observation_path(run_dir, "telemetry", "seen")


def of_cluster(run_dir: Path, uid: str) -> None:
    (run_dir / "cluster.json").write_text(json.dumps({"version": "v1.34.0", "uid": uid}), encoding="utf-8")


def as_api(uid: str) -> Cluster:
    return cast(Cluster, Api(uid))


@pytest.mark.parametrize("uid", ["1-2-3", None])
def test_what_was_seen_in_the_runs_cluster_is_accepted(tmp_path: Path, uid: str | None) -> None:
    of_cluster(tmp_path, "1-2-3")
    seen_in(tmp_path, uid)
    assert saved_observation(tmp_path, "telemetry", "seen").data == {"nodes": 2}


def test_what_an_earlier_release_saw_is_accepted_without_a_cluster(tmp_path: Path) -> None:
    of_cluster(tmp_path, "1-2-3")
    path = seen_in(tmp_path, "1-2-3")
    written = json.loads(path.read_text("utf-8"))
    del written["cluster"]
    path.write_text(json.dumps({**written, "schema_version": 1}), encoding="utf-8")
    assert saved_observation(tmp_path, "telemetry", "seen").cluster is None
    path.write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(InputError, match="has no cluster, which is always written"):
        saved_observation(tmp_path, "telemetry", "seen")


@pytest.mark.parametrize("change", [lambda run: of_cluster(run, "9-9"), lambda run: (run / "cluster.json").unlink()])
def test_what_was_seen_in_another_cluster_is_refused(tmp_path: Path, change: Callable[[Path], None]) -> None:
    of_cluster(tmp_path, "1-2-3")
    seen_in(tmp_path, "1-2-3")
    change(tmp_path)
    with pytest.raises(InputError, match="is of cluster 1-2-3, this run is of cluster"):
        saved_observation(tmp_path, "telemetry", "seen")


def test_a_context_that_leads_to_another_cluster_now_is_refused(tmp_path: Path) -> None:
    of_cluster(tmp_path, "1-2-3")
    assert same_cluster.require_same_cluster(tmp_path, as_api("1-2-3")) == "1-2-3"
    with pytest.raises(InputError, match=r"saw cluster 1-2-3, now it is cluster 9-9"):
        same_cluster.require_same_cluster(tmp_path, as_api("9-9"))
    with pytest.raises(BringupError, match="user may not"):
        same_cluster.require_same_cluster(tmp_path, as_api(""))


def test_a_cluster_whose_uid_preflight_might_not_read_is_not_compared(tmp_path: Path) -> None:
    of_cluster(tmp_path, "")
    assert same_cluster.require_same_cluster(tmp_path, as_api("9-9")) is None


@pytest.mark.parametrize(("gate", "asked"), [("nodes", None), ("telemetry", "1-2-3")])
def test_only_gates_that_look_into_the_cluster_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: str, asked: str | None
) -> None:
    of_cluster(tmp_path, "1-2-3")
    run = Run(tmp_path)
    run.save_site(make_site(gates=("nodes", "telemetry"), capabilities=("kubernetes",)))
    monkeypatch.setattr(same_cluster, "Cluster", lambda _connection: Api("1-2-3"))
    assert same_cluster.cluster_of_gate(run, gate, {}) == asked


def test_a_gate_that_may_not_look_says_why_and_looks_at_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(gates=("telemetry",), capabilities=("kubernetes",))
    run = Run(tmp_path)
    run.save_site(site)
    run.save_hardware({})
    run.save_record(new_run("r1", "here", "2026-11-22T10:00:00Z", site.gates, rehearsal=False))
    looked: list[Any] = []
    watching = replace(SEEN, observe=looked.append)
    monkeypatch.setattr(
        "ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing.needed_observers",
        lambda _plan: [(watching, True)],
    )
    refused = InputError("Kubernetes API", "now it is another cluster.", "")
    context = run.observe_context(date(2026, 11, 22), lambda _line: None)
    (seen,) = observe_gate(run.declaration("telemetry"), context, check_mode=False, refused=refused)
    assert (looked, (seen.error or {})["reason"]) == ([], "now it is another cluster.")
