# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a validator's pod ended, and what that means. Pure.

The contract is that of the upstream tool (NVIDIA/aicr, "Validator Development Guide"): exit code 0 passed, 1 failed, 2
skipped; a reason of at most 4096 bytes in /dev/termination-log; output for people on stdout, of which lines with
`RESULT: ` are echoed. Any other ending (killed for memory, evicted, not started, no exit code, too late) is no result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...clients.kube.errors import mending
from ...outcome.model import Evidence, Outcome, Rating, Status, Subject, SubjectKind
from .catalog import ValidatorImage

if TYPE_CHECKING:
    from ...workload.follow import Ending

Json = dict[str, Any]
CONTAINER = "validator"
RESULT = "RESULT: "
# How much of the output and message the upstream tool keeps: lines, characters per line, bytes.
_LINES, _LENGTH, _MESSAGE = 1000, 512, 4096
# Reasons of a kubelet or of the API server with which a container was ended from outside, even if it has an exit code.
_NOT_ITS_OWN = ("OOMKilled", "ContainerStatusUnknown", "Evicted", "DeadlineExceeded")
# The API server's message to an account that lacks a permission (kubernetes/apiserver, pkg/endpoints/handlers/
# responsewriters/errors.go), and client-go's in a pod without a token (rest/config.go: InClusterConfig).
_NO_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token: no such file"
_DENIED = r'User \\?"system:serviceaccount:[^:"\\]+:{account}\\?" cannot '
_LAST_WORDS = 20
_CAUSES = {
    "unschedulable": "validator-not-placed",
    "image": "image-not-pulled",
    "refused": "validator-refused",
    "held": "validator-not-placed",
    "lost-node": "validator-lost",
    "preempted": "validator-lost",
    "slow-start": "validator-not-started",
    "timeout": "validator-timeout",
    "failed": "validator-broken",
    "aborted": "validator-timeout",
}
_HINTS = {
    "validator-not-placed": "kubectl describe nodes: a taint goes to gpufleet_set=gpu_stack.tolerations=[...]",
    "image-not-pulled": "name an image that the nodes can pull, or give them its registry's credentials",
    "validator-refused": "let the run's account make it: docs/validate.md (Validators that are images)",
    "validator-timeout": "raise its timeout in validators/catalog.yaml, if it needs the time",
    "validator-lost": "run the phase again",
    "validator-forbidden": "state `rules` for it in validators/catalog.yaml; they give rights in its own namespace and "
    "nowhere else: docs/validate.md (Validators that are images)",
    "validator-not-started": "run the phase again; kubectl get events -A -w beside it says what is waited for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorRun:
    """How one validator ended.

    Attributes:
        state: that of a job (workload/job.py).
        exit_code: None where its container has none.
        word: the kubelet's reason for the end.
        message: its termination log.
        reason: why it did not end by itself.
        lines: the last lines of its output.
        unread: why the output cannot be read.
        leftovers: objects of its namespace that could not be removed.
    """

    name: str
    image: str
    state: str
    exit_code: int | None = None
    word: str = ""
    message: str = ""
    reason: str = ""
    node: str = ""
    lines: tuple[str, ...] = ()
    unread: str = ""
    leftovers: tuple[str, ...] = ()
    duration_s: float = 0.0
    schema_version: int = 1

    @property
    def results(self) -> tuple[str, ...]:
        """Its lines for people to read at once, without the `RESULT: ` prefix."""
        return tuple(line.removeprefix(RESULT).strip() for line in self.lines if line.startswith(RESULT))


def log_path(phase: str, name: str) -> str:
    """Return the path of a validator's output in the run directory."""
    return f"evidence/{phase}/{name}.log"


def key_of(validator: ValidatorImage) -> str:
    """Return the key of the observation of a validator's run."""
    return f"validator-{validator.name}"


def account_of(name: str) -> str:
    """Return the name of the pod and of the account of a validator."""
    return f"v-{name}"


def ended(validator: ValidatorImage, pod: Mapping[str, Any], ending: Ending, log: str, unread: str) -> ValidatorRun:
    """Return how a validator ended, from its pod and its log."""
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses") or []
    own: Json = next((entry for entry in statuses if entry.get("name") == CONTAINER), {})
    terminated = (own.get("state") or {}).get("terminated") or {}
    # The status of a pod that was evicted or exceeded its deadline has the reason, whatever its container reports.
    word = str(status.get("reason") or terminated.get("reason") or "")
    code = terminated.get("exitCode")
    state, reason = ending.state, ending.reason
    if state == "failed" and (pod.get("metadata") or {}).get("deletionTimestamp"):
        # A container that is terminated exits in the middle of its work, with any exit code.
        state, reason = "lost-node", f"somebody removed its pod; {reason}"
    return ValidatorRun(
        name=validator.name,
        image=validator.image,
        state=state,
        exit_code=int(code) if isinstance(code, int) else None,
        word=word,
        message=str(terminated.get("message") or "").strip()[:_MESSAGE],
        reason=reason[:1000],
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        lines=tuple(line[:_LENGTH] for line in log.splitlines()[-_LINES:]),
        unread=unread,
    )


def judge_run(validator: ValidatorImage, run: ValidatorRun, site: str, gate: str, path: str) -> Outcome:
    """Return the outcome of a validator; `path` is that of its output in the run directory."""
    reported = " ".join(run.message.split()) or "; ".join(run.results[:3])
    about: dict[str, Any] = {
        "check": validator.name,
        "gate": gate,
        "subjects": (Subject(SubjectKind.SITE, site),),
        "evidence": (Evidence(f"image {run.image}", run.node, "\n".join(run.results[:20])[:1000] or run.unread, path),),
    }

    def other(cause: str, text: str, hint: str = "") -> Outcome:
        return Outcome(
            status=Status.OTHER, rating=Rating.UNKNOWN, summary=text[:600], cause=cause,
            hint=hint or _HINTS.get(cause, f"read {path} in the run directory"), **about,
        )  # fmt: skip

    if run.name != validator.name or run.image != validator.image:
        return other("no-data", f"what was saved is of {run.name}, image {run.image}", "run the phase again")
    if run.state not in ("succeeded", "failed"):
        hint = mending(run.reason) if run.state == "refused" else ""
        cause = _CAUSES.get(run.state, "validator-broken")
        return other(cause, f"did not end by itself: {run.reason or run.state}", hint)
    if run.word in _NOT_ITS_OWN:
        killed = f"was ended by the cluster ({run.word}), exit code {run.exit_code}"
        hint = "raise its resources in validators/catalog.yaml" if run.word == "OOMKilled" else ""
        return other("validator-killed", f"{killed}: {reported or run.reason}".rstrip(": "), hint)
    if run.exit_code is None:
        return other("validator-broken", f"has no exit code: {run.reason or 'its container did not end'}")
    if run.leftovers:
        text = f"exit code {run.exit_code}, but left behind: {run.leftovers[0]}"
        return other("cleanup-incomplete", text, "kubectl get ns -l gpufleet.io/purpose=test; delete what it left")
    return _answered(run, reported, about, other)


def _answered(run: ValidatorRun, reported: str, about: Mapping[str, Any], other: Any) -> Outcome:
    if run.exit_code == 0 and run.state == "succeeded":
        text = reported or "exit code 0"
        return Outcome(status=Status.PASSED, rating=Rating.GOOD, summary=text[:600], **about)
    if run.exit_code == 1 and (denied := _denied(run)):
        found: Outcome = other("validator-forbidden", f"it could not look: {denied}")
        return found
    if run.exit_code == 1:
        text = reported or "exit code 1, and no word why"
        hint = f"read its output in the run directory: {about['evidence'][0].path}"
        return Outcome(
            status=Status.FAILED, rating=Rating.BAD, summary=text[:600], cause="validator-failed", hint=hint, **about
        )
    if run.exit_code == 2:
        text = f"it skipped itself: {reported or 'no word why'}"
        return Outcome(status=Status.SKIPPED, rating=Rating.UNKNOWN, summary=text[:600], **about)
    result: Outcome = other(
        "validator-broken", f"exit code {run.exit_code} is none of 0, 1 and 2: {reported or run.reason}"
    )
    return result


def _denied(run: ValidatorRun) -> str:
    """Return the message of a validator that its account lacks a permission, empty if there is none.

    Images of the upstream tool exit with 1 for whatever keeps them from observing (NVIDIA/aicr, validators/runner.go),
    which proves nothing about the cluster. A denied request before another failure does not count: where there is a
    termination message, only that is read.
    """
    denied = re.compile(_DENIED.format(account=re.escape(account_of(run.name))))
    words = [run.message] if run.message else list(run.lines[-_LAST_WORDS:])
    return next((" ".join(word.split()) for word in words if _NO_TOKEN in word or denied.search(word)), "")
