# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done about bad nodes: who is taken out, when the breaker holds, what returns, what is never touched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import served

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.remediation.app import (
    RemediationPolicy,
    RemediationSite,
    RemediationSteps,
    Turn,
    carry_out,
    notify,
    policy_of,
    steps,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import OurCordon

CORDON = RemediationPolicy(acts=("cordon",))
TURN = Turn(site="island", rehearsal=False, cycle_id="c9", now="2026-11-23T10:00:00Z")


def words(bad: Sequence[int], healthy: int = 40, unknown: Sequence[int] = ()) -> dict[str, str]:
    found = {f"n{number:02d}": "healthy" for number in range(healthy)}
    return found | {f"n{n:02d}": "bad" for n in bad} | {f"n{n:02d}": "unknown" for n in unknown}


def test_by_default_nothing_is_done() -> None:
    policy = policy_of({})
    assert policy.acts == () and policy.breaker_percent == 10.0 and not policy.takes_out


@pytest.mark.parametrize(
    "stated",
    [
        {"acts": ["reboot"]}, {"acts": "cordon"}, {"acts": ["cordon", "slurm_drain"]}, {"breaker_percent": 0},
        {"breaker_percent": 101}, {"breaker": 10}, {"budget": -1}, {"budget": True}, {"webhook_timeout_s": 0},
        {"acts": ["webhook"]}, {"webhook_url": "https://tickets.example.org"},
        {"acts": ["webhook"], "webhook_url": "http://tickets.example.org"},
        {"acts": ["webhook"], "webhook_url": "http://127.0.0.1.example.org"},
    ],
)  # fmt: skip
def test_a_policy_that_means_nothing_is_refused(stated: dict[str, Any]) -> None:
    with pytest.raises(BringupError):
        policy_of(stated)


def test_a_bad_node_is_taken_out_and_no_other() -> None:
    found = steps(RemediationSite(words=words([3], unknown=[4])), CORDON)
    assert found == RemediationSteps(take=("n03",))


def test_the_breaker_counts_what_is_out_already() -> None:
    assert steps(RemediationSite(words=words([1, 2, 3, 4])), CORDON).take == ("n01", "n02", "n03", "n04")
    found = steps(RemediationSite(words=words([1, 2, 3, 4, 5])), CORDON)
    assert (
        not found.take and "the breaker holds" in found.stopped and set(found.left) == {f"n0{n}" for n in range(1, 6)}
    )
    # Three of ours are out and not healthy yet: one more fits, two do not.
    out = ("n10", "n11", "n12")
    site = RemediationSite(words=words([1], unknown=[10, 11, 12]), out=out, recorded=out)
    assert steps(site, CORDON).take == ("n01",)
    site = RemediationSite(words=words([1, 2], unknown=[10, 11, 12]), out=out, recorded=out)
    assert not steps(site, CORDON).take and "3 nodes of the site are out by us" in steps(site, CORDON).stopped
    # So are those of a roll of ours.
    site = RemediationSite(words=words([1, 2], unknown=[10, 11, 12]), elsewhere=out)
    assert not steps(site, CORDON).take


def test_the_breaker_looks_at_cohorts_as_well() -> None:
    cohorts = {f"n{n:02d}": ("h100",) if n < 10 else ("h200",) for n in range(40)}
    found = steps(RemediationSite(words=words([1, 2]), cohorts=cohorts), CORDON)
    assert not found.take and "cohort h100" in found.stopped
    assert steps(RemediationSite(words=words([1, 12]), cohorts=cohorts), CORDON).take == ("n01", "n12")


def test_a_site_of_four_may_lose_one() -> None:
    assert steps(RemediationSite(words=words([1], 4)), CORDON).take == ("n01",)
    assert steps(RemediationSite(words=words([1, 2], 4)), CORDON).stopped


def test_the_budget_spreads_over_cycles() -> None:
    found = steps(RemediationSite(words=words([1, 2, 3])), RemediationPolicy(acts=("cordon",), budget=2))
    assert found.take == ("n01", "n02") and "budget of 2" in found.left["n03"] and not found.stopped


def test_nodes_that_recover_neither_hold_the_breaker_nor_are_taken_out() -> None:
    """A bad image was on six of 40 nodes and is gone; a node with a fault of its own goes on failing."""
    recovering = {f"n0{n}": 0 for n in range(1, 7)}
    assert steps(RemediationSite(words=words([1, 2, 3, 4, 5, 6, 7])), CORDON).stopped
    found = steps(RemediationSite(words=words([1, 2, 3, 4, 5, 6, 7]), in_a_row={**recovering, "n07": 9}), CORDON)
    assert found.take == ("n07",) and not found.stopped
    assert set(found.left) == set(recovering) and all("newest result is good" in why for why in found.left.values())
    # Who is out stays out, however good its newest result is.
    site = RemediationSite(words=words([1]), out=("n01",), recorded=("n01",), in_a_row={"n01": 0})
    assert steps(site, CORDON) == RemediationSteps(keep=("n01",))


def test_of_more_than_the_budget_those_go_first_that_failed_most_often_in_a_row() -> None:
    site = RemediationSite(words=words([1, 2, 3]), in_a_row={"n01": 1, "n02": 1, "n03": 8})
    found = steps(site, RemediationPolicy(acts=("cordon",), budget=2))
    assert found.take == ("n03", "n01") and set(found.left) == {"n02"}


def test_only_what_is_ours_and_healthy_returns() -> None:
    out = ("n01", "n02", "n03")
    site = RemediationSite(words=words([1], unknown=[2]), out=out, recorded=out)
    found = steps(site, CORDON)
    assert found.give_back == ("n03",) and found.keep == ("n01",) and not found.take
    assert not steps(site, RemediationPolicy(acts=("cordon",), give_back=False)).give_back


def test_what_somebody_gave_back_is_not_taken_again_before_it_was_healthy() -> None:
    found = steps(RemediationSite(words=words([1]), recorded=("n01",)), CORDON)
    assert not found.take and "somebody gave it back" in found.left["n01"]
    assert steps(RemediationSite(words=words([]), recorded=("n01",)), CORDON).forget == ("n01",)


def test_a_controller_that_died_before_it_recorded_finds_its_mark() -> None:
    assert steps(RemediationSite(words=words([1]), out=("n01",)), CORDON).record == ("n01",)


@given(st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)), st.integers(0, 9))
def test_never_more_out_than_the_breaker_allows(bad: set[int], out: set[int], kept: set[int], budget: int) -> None:
    ours = {f"n{n:02d}" for n in out}
    site = RemediationSite(words=words(sorted(bad)), out=ours, recorded={f"n{n:02d}" for n in kept})
    found = steps(site, RemediationPolicy(acts=("cordon",), budget=budget))
    assert len(found.take) <= budget and not set(found.take) & ours
    if found.take:
        assert len(ours | set(found.take)) <= 4
    assert all(site.words[node] == "healthy" and node in ours for node in found.give_back)


class Hands:
    """Nodes that somebody else, or we, keep from work."""

    def __init__(self, foreign: Sequence[str] = (), broken: Sequence[str] = ()) -> None:
        self.foreign, self.broken = set(foreign), set(broken)
        self.held: dict[str, str] = {}

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        return frozenset(self.held) & set(nodes)

    def cordon(self, node: str) -> str:
        if node in self.broken:
            raise UnavailableError("api", "does not answer.")
        if node in self.foreign:
            return "cordoned by somebody else"
        self.held.setdefault(node, "")
        return ""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        if node in self.held or not again:
            self.held[node] = reason

    def give_back(self, node: str) -> str:
        self.held.pop(node, None)
        return "cordoned by somebody else, and stays so" if node in self.foreign else ""


class Cordons:
    """What is recorded."""

    def __init__(self) -> None:
        self.open: dict[str, OurCordon] = {}

    def add_cordon(self, site: str, cordon: OurCordon, *, rehearsal: bool) -> bool:
        assert site == "island" and not rehearsal
        self.open[cordon.node] = cordon
        return True

    def lift_cordon(self, site: str, node: str, lifted: str, *, rehearsal: bool) -> bool:
        assert lifted == TURN.now
        return self.open.pop(node, None) is not None


def test_steps_are_carried_out_and_recorded() -> None:
    hands, cordons = Hands(foreign=["n02"], broken=["n03"]), Cordons()
    hands.held["n04"] = "old"
    cordons.open["n04"] = OurCordon(node="n04", by="continuous-validation/c1", reason="old", since="")
    todo = RemediationSteps(take=("n01", "n02", "n03"), give_back=("n04",), left={"n05": "why"})
    told = carry_out(todo, {"n01": "slow, password=hunter22"}, hands, cordons, TURN)
    assert told["n01"] == "was taken out of service" and "somebody else" in told["n02"]
    assert "could not be taken out" in told["n03"] and told["n04"] == "was given back" and "why" in told["n05"]
    assert set(hands.held) == {"n01"} and "hunter22" not in hands.held["n01"]
    assert set(cordons.open) == {"n01"} and cordons.open["n01"].by == "continuous-validation/c9"
    assert "hunter22" not in cordons.open["n01"].reason


def test_check_mode_tells_and_does_nothing() -> None:
    hands, cordons = Hands(), Cordons()
    told = carry_out(RemediationSteps(take=("n01",), give_back=("n02",)), {}, hands, cordons, TURN, check_mode=True)
    assert told == {"n01": "would be taken out of service", "n02": "would be given back"}
    assert not hands.held and not cordons.open


class Ticket(BaseHTTPRequestHandler):
    """Keeps what it gets."""

    got: list[tuple[dict[str, str], Any]]
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).got.append((dict(self.headers), body))
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        return None


@pytest.mark.parametrize(("status", "fails"), [(200, False), (204, False), (302, True), (500, True)])
def test_a_webhook_gets_json_with_the_token_and_no_secrets(tmp_path: Path, status: int, fails: bool) -> None:
    handler = type("Handler", (Ticket,), {"got": [], "status": status})
    token = tmp_path / "token"
    token.write_text("t0ken-of-the-site\n")
    with served(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        policy = RemediationPolicy(acts=("webhook",), webhook_url=url, webhook_token_file=str(token))
        problem = notify(policy, {"nodes": [{"node": "n01", "reasons": ["API_KEY=hvs.0123456789abcdefghij"]}]})
    headers, body = handler.got[0]
    assert headers["Authorization"] == "Bearer t0ken-of-the-site" and body["nodes"][0]["node"] == "n01"
    assert "0123456789abcdefghij" not in json.dumps(body)
    assert bool(problem) is fails and "t0ken" not in problem


def test_a_webhook_that_nobody_serves_or_without_its_token_is_told(tmp_path: Path) -> None:
    policy = RemediationPolicy(acts=("webhook",), webhook_url="http://127.0.0.1:9/hook", webhook_timeout_s=2)
    assert notify(policy, {})
    missing = RemediationPolicy(
        acts=("webhook",), webhook_url="https://x.example", webhook_token_file=str(tmp_path / "none")
    )
    assert "cannot be read" in notify(missing, {})
