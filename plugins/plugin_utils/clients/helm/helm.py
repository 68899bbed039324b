# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Helm by its command line: install, upgrade, list, render, uninstall. No secret is ever on its command line."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...outcome.errors import BringupError, DeadlineError, NotFoundError, UnavailableError
from ...runtime.backoff import Backoff
from ...runtime.clock import Deadline, elapsed_text
from ...runtime.command import CommandResult, run_command
from ...runtime.redaction import excerpt, redact
from ..kube.connection import Connection
from ..kube.transport import PATIENCE_S
from .chart import ChartSource
from .outage import cut_off, nothing_begun, two_at_once

MINIMUM_VERSION = (3, 14)
GRACE_S = 20.0
_CHART = re.compile(r"(?P<name>.+?)-(?P<version>v?\d+\.\d+.*)")
_SOURCE = re.compile(r"^---\n# Source: (.+)\n", re.MULTILINE)
# Of the chart or of one in it. A chart in it may itself be called crds, as in prometheus-operator-crds: its definitions
# are templates, and so the release's own.
_CRDS = re.compile(r"[^/]+(?:/charts/[^/]+)*/crds/")
# What changes the cluster, and so is repeated only where nothing was begun.
_WRITING = ("upgrade", "uninstall", "rollback")
_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


class HelmError(BringupError):
    """Helm ended with an error.

    Attributes:
        cut_off: the API server went away while it worked.
        two_at_once: another helm has worked on the release since this one looked.
    """

    cut_off = False
    two_at_once = False


@dataclass(frozen=True, slots=True)
class Release:
    """One release as helm lists it; `status` is helm's word (`deployed`, `failed`, `pending-upgrade`, ...)."""

    name: str
    namespace: str
    revision: int
    status: str
    chart: str
    chart_version: str

    @property
    def is_pending(self) -> bool:
        """Whether another helm works on it, or died while it did."""
        return self.status.startswith("pending-") or self.status == "uninstalling"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """What `upgrade --install` is to bring about."""

    name: str
    namespace: str
    chart: ChartSource
    values: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class Helm:
    """Helm bound to one cluster."""

    def __init__(self, connection: Connection, *, binary: str = "helm", timeout_s: float = 300.0) -> None:
        """Remember how to reach the cluster; nothing is run yet."""
        self._binary = binary
        self._timeout_s = timeout_s
        self._env = {**os.environ, **_environment(connection)}

    def check_version(self) -> str:
        """Return helm's version.

        Raises:
            NotFoundError: helm is not installed.
            UnavailableError: it is too old, or says something else.
        """
        result = self._run(["version", "--short"], "version")
        match = _VERSION.search(result.stdout)
        if match is None:
            raise UnavailableError(
                f"command {self._binary}", "its version cannot be read.", "", (excerpt(result.stdout),)
            )
        if (int(match[1]), int(match[2])) < MINIMUM_VERSION:
            wanted = ".".join(map(str, MINIMUM_VERSION))
            raise UnavailableError(
                f"command {self._binary}",
                f"is {match[0]}, {wanted} or newer is needed.",
                f"install helm {wanted} or newer",
            )
        return match[0]

    def releases(self) -> dict[str, Release]:
        """Return every release of the cluster, whatever its state, as `namespace/name` to release."""
        result = self._run(["list", "--all-namespaces", "--all", "--max", "0", "--output", "json"], "list")
        try:
            rows = json.loads(result.stdout)
            found = [_release(row) for row in rows]
        except (ValueError, KeyError, TypeError):
            raise UnavailableError("helm list", "unexpected output.", "", (excerpt(result.stdout),)) from None
        return {f"{release.namespace}/{release.name}": release for release in found}

    def values(self, name: str, namespace: str) -> dict[str, Any]:
        """Return the values that a release was given."""
        result = self._run(["get", "values", name, "--namespace", namespace, "--output", "json"], f"get values {name}")
        try:
            found = json.loads(result.stdout) or {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UnavailableError(f"helm get values {name}", "unexpected output.", "", (excerpt(result.stdout),))
        return found

    def manifest(self, name: str, namespace: str) -> str:
        """Return the manifests of a release as helm installed them. They may hold Secrets: keep only what is needed."""
        return self._run(["get", "manifest", name, "--namespace", namespace], f"get manifest {name}").stdout

    def upgrade(self, request: ReleaseRequest, *, dry_run: bool = False, take_ownership: bool = False) -> str:
        """Install or upgrade a release and return helm's redacted answer; it does not wait for readiness.

        Raises:
            HelmError: helm failed; the reason quotes it.
            DeadlineError: it took too long.
        """
        argv = ["upgrade", request.name, request.chart.reference, *request.chart.options, "--install"]
        argv += ["--namespace", request.namespace, "--create-namespace", "--history-max", "5", "--hide-notes"]
        # Without values of its own helm would keep those of the last revision, set by hand or not.
        argv += ["--reset-values"]
        if request.labels:
            argv += ["--labels", ",".join(f"{key}={value}" for key, value in sorted(request.labels.items()))]
        argv += ["--dry-run=server"] if dry_run else []
        argv += ["--take-ownership"] if take_ownership else []
        return excerpt(self._with_values(argv, request, f"upgrade {request.name}").stdout)

    def template(self, request: ReleaseRequest, kube_version: str = "") -> str:
        """Return the manifests that a chart renders to, without a cluster.

        Args:
            request: the chart and its values.
            kube_version: version of the cluster that it is for; without it helm takes one that it was built with, and a
                chart that asks for a newer one does not render.
        """
        argv = ["template", request.name, request.chart.reference, *request.chart.options]
        argv += ["--namespace", request.namespace, "--include-crds"]
        argv += ["--kube-version", kube_version] if kube_version else []
        return self._with_values(argv, request, f"template {request.name}").stdout

    def uninstall(self, name: str, namespace: str, *, wait: bool = False) -> bool:
        """Uninstall a release, and with `wait` until its objects are gone; tell whether there was one."""
        argv = ["uninstall", name, "--namespace", namespace, "--ignore-not-found"]
        # Helm's own limit comes first, so that it says what it waits for.
        argv += ["--wait", "--timeout", f"{max(1, int(self._timeout_s - GRACE_S))}s"] if wait else []
        return "uninstalled" in self._run(argv, f"uninstall {name}").stdout

    def crds(self, request: ReleaseRequest, kube_version: str) -> str:
        """Return the definitions in a chart's `crds/`, which helm installs once and never changes, as YAML documents;
        the version is that of the cluster.

        `helm show crds` puts files together without a separator, so they are taken from what it renders.
        """
        sections = _SOURCE.split(self.template(request, kube_version))[1:]
        return "".join(
            f"---\n{text}" for name, text in zip(sections[::2], sections[1::2], strict=True) if _CRDS.match(name)
        )

    def recover(self, name: str, namespace: str) -> tuple[int, str]:
        """Free a release on which a helm died, and return its newest revision (0: none is left) and what was done.

        It goes back to the last revision that worked. Where there is none nothing ever worked, and it is uninstalled.

        Raises:
            HelmError: helm failed; the reason quotes it.
        """
        argv = ["history", name, "--namespace", namespace, "--max", "256", "--output", "json"]
        result = self._run(argv, f"history {name}")
        try:
            rows = [(int(row["revision"]), str(row["status"])) for row in json.loads(result.stdout)]
            newest = max(revision for revision, _status in rows)
        except (ValueError, KeyError, TypeError):
            raise UnavailableError("helm history", "unexpected output.", "", (excerpt(result.stdout),)) from None
        worked = [revision for revision, status in rows if status in ("deployed", "superseded")]
        if not worked or any(status == "uninstalling" for _revision, status in rows):
            self.uninstall(name, namespace)
            return 0, "uninstalled, because no revision of it is whole"
        argv = ["rollback", name, str(max(worked)), "--namespace", namespace, "--history-max", "5"]
        self._run(argv, f"rollback {name}")
        return newest + 1, f"rolled back to revision {max(worked)}"

    def _with_values(self, argv: Sequence[str], request: ReleaseRequest, what: str) -> CommandResult:
        # By its standard input: a file would stay behind where both of us are killed.
        return self._run([*argv, "--values", "-"], what, stdin=json.dumps(request.values))

    def _run(self, arguments: Sequence[str], what: str, stdin: str = "") -> CommandResult:
        """Run helm, again while the API server is away, as far as that is safe."""
        backoff, deadline = Backoff(), Deadline.after(PATIENCE_S)
        writes = arguments[0] in _WRITING and "--dry-run=server" not in arguments
        while True:
            result = self._once(arguments, what, stdin)
            away = nothing_begun(result.stderr) if writes else cut_off(result.stderr)
            if result.rc == 0:
                return result
            if not away or deadline.left_s <= 0:
                error = HelmError(
                    f"helm {what}", _cause(result.stderr), _hint(result.stderr), (excerpt(result.stderr),)
                )
                error.cut_off, error.two_at_once = cut_off(result.stderr), two_at_once(result.stderr)
                raise error
            time.sleep(min(backoff.pause_s(), deadline.left_s))

    def _once(self, arguments: Sequence[str], what: str, stdin: str) -> CommandResult:
        argv = [self._binary, *arguments]
        try:
            # On SIGTERM helm cancels what it does and marks the release as failed, which the next upgrade may follow.
            result = run_command(argv, self._timeout_s, stdin=stdin, env=self._env, grace_s=GRACE_S)
        except NotFoundError as error:
            hint = "install helm 3.14 or newer on the controller and put it on PATH"
            raise NotFoundError(error.subject, error.reason, hint) from None
        if result.timed_out:
            limit = elapsed_text(self._timeout_s)
            hint = "the release may now be pending (helm list -A -a); the next run recovers it if it is ours"
            if arguments[:1] == ["list"]:
                hint = "is the API server slow? raise the time limit, of a snapshot by gpufleet_snapshot_timeout_s"
            raise DeadlineError(f"helm {what}", f"not done after {limit}.", hint, (excerpt(result.stderr),))
        return result


def _environment(connection: Connection) -> dict[str, str]:
    values = {
        "KUBECONFIG": connection.kubeconfig,
        "HELM_KUBECONTEXT": connection.context,
        "HELM_KUBEAPISERVER": connection.host,
        "HELM_KUBETOKEN": connection.api_key,
        "HELM_KUBECAFILE": connection.ca_cert,
        "HELM_KUBEASUSER": connection.impersonate_user,
        "HELM_KUBEINSECURE_SKIP_TLS_VERIFY": "true" if connection.validate_certs is False else "",
    }
    return {key: value for key, value in values.items() if value}


def _release(row: Mapping[str, Any]) -> Release:
    match = _CHART.fullmatch(row["chart"])
    return Release(
        name=row["name"],
        namespace=row["namespace"],
        revision=int(row["revision"]),
        status=row["status"],
        chart=match["name"] if match else row["chart"],
        chart_version=match["version"] if match else "",
    )


def _cause(stderr: str) -> str:
    """Return helm's error in one line, whole: several causes, and what a schema refuses, stand in lines below it."""
    lines = [line.strip() for line in redact(stderr).splitlines() if line.strip()]
    begins = [number for number, line in enumerate(lines) if line.lower().startswith("error")]
    said = lines[begins[0] :] if begins else lines[-1:] or ["ended with an error and said nothing"]
    text = said[0]
    for number, line in enumerate(line for line in said[1:] if not line.startswith("Use --debug flag")):
        text += ("" if text.endswith(":") else ";" if number else ":") + f" {line.removeprefix('* ')}"
    return excerpt(text).replace("\n", " ")


_HINTS = (
    ("another operation", "another helm works on it or died: helm history <release>; then helm rollback <release>"),
    ("release: already exists", "another helm works on it: helm list -A -a; run again when that one has ended"),
    ("cannot be imported into the current release", "it belongs to somebody else; set adopt to take it over"),
    ("exceeded quota", "raise the quota of the namespace: kubectl describe resourcequota -n <namespace>"),
    ("violates PodSecurity", "label its namespace: pod-security.kubernetes.io/enforce=privileged"),
    ("denied the request", "an admission webhook or policy of the cluster refuses it: change the policy or the values"),
    ("unreachable", "check the kubeconfig and the API server"),
    ("not found", "check chart name, version and source, or set gpufleet_chart_mirror"),
    ("forbidden", "installing operators needs an administrator's credentials"),
    ("don't meet the specifications of the schema", "correct the component's values; the text names the field"),
)


def _hint(stderr: str) -> str:
    return next(
        (hint for word, hint in _HINTS if word in stderr), "correct what helm names, in the values or on the cluster"
    )
