# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Helm by its command line: install, upgrade, list, render, uninstall. Also which of its errors mean that the API
server is away.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

from ...outcome.errors import BringupError, DeadlineError, InputError, NotFoundError, UnavailableError
from ...runtime.clock import Backoff, Deadline, elapsed_text
from ...runtime.process import CommandResult, memory_file, run_command
from ...runtime.redaction import excerpt, redact
from ..kube.connection import Connection
from ..kube.transport import PATIENCE_S, Transport
from .chart import ChartSource

# Which errors of helm mean that the API server is away or overloaded, and whether helm had changed anything by then;
# which ones mean that another helm works on the release. Pure.
# client-go, which helm uses, retries a 429 or 5xx itself only if it carries `Retry-After`. A response without it, such
# as one of a load balancer, ends helm. The error text is that of kubernetes/apimachinery, pkg/api/errors/errors.go
# (NewGenericServerResponse), or the message of the server's own Status, which may be anything.

# Commands that change a cluster query its version first (helm/helm, pkg/kube/client.go: IsReachable).
_BEFORE = "Kubernetes cluster unreachable"
# Errors of Go's HTTP client about a request without response. Addresses of chart repositories have other paths.
_CUT = re.compile(
    r'(?:Get|Post|Put|Patch|Delete) "https?://[^/" ]+/(?:version|apis?/|openapi/)[^"]*": [^\n]*'
    r"(?:connection refused|connection reset|broken pipe|EOF|TLS handshake timeout|i/o timeout|no route to host)"
    r"|http2: client connection lost|etcdserver: (?:leader changed|request timed out)"
)
# Where helm creates several objects it lists the error of each, and where it changes one it names it. In both cases the
# text is that of the server's Status alone (pkg/kube/client.go).
_REFUSED = re.compile(
    r"the server has received too many requests and has asked us to try again later|Too many requests"
    r"|the server is currently unable to handle the request|the server was unable to return a response in the time"
    r"|an error on the server \(.*\) has prevented the request from succeeding|apiserver is shutting down"
    r"|error trying to reach service|Internal error occurred: (?!failed calling )|\d+ errors? occurred:"
    r'|cannot patch "[^"]*" with kind |failed to (?:create resource|replace object|refresh resource)',
    re.DOTALL,
)
# Errors before helm records a revision. Until then it reads the existing revisions, queries which APIs the cluster
# serves, creates missing namespaces and CRDs, and checks the owners of objects (helm/helm, pkg/storage/driver,
# pkg/action/install.go, validate.go). An upgrade may be repeated after them without effect on the result.
_READING = re.compile(
    r"query: failed to query with labels: |list: failed to list: |get: failed to get |failed to install CRD "
    r"|Unable to continue with (?:install|update): could not get information about|could not get server version"
    r"|unable to build kubernetes objects from |failed to download openapi"
)
# Errors of reading an object while helm changes the cluster; reading changes nothing itself (pkg/kube/client.go).
_LOOKING = re.compile(r"could not get information about the resource|unable to get data for current object")
# Errors that a retry does not change. Where schemas could not be fetched, objects are not validated, which helm reports
# as a failed validation (kubectl/pkg/validation, `failed to download openapi`).
_FINAL = re.compile(
    r"forbidden|[Uu]nauthorized|not found|could not find the requested resource|no matches for kind|already exists"
    r"|is invalid|denied the request|failed calling webhook|Apply failed with|cannot (?:list|get|create)|x509:"
    r'|error validating(?! (?:"[^"]*": error validating )?data: failed to download openapi)'
)
# helm/helm: `ErrReleaseExists` of pkg/storage/driver/driver.go, pkg/action/upgrade.go and pkg/action/install.go. Before
# 3.19 the text had a hyphen in its second word.
_TWO_AT_ONCE = re.compile(
    r"release: already exists|another operation \(install/upgrade/rollback\) is in progress"
    r"|cannot re-?use a name that is still in use"
)


def two_at_once(stderr: str) -> bool:
    """Tell whether helm ended because another helm changed the release meanwhile."""
    return _TWO_AT_ONCE.search(stderr) is not None


def nothing_begun(stderr: str) -> bool:
    """Tell whether helm ended because the server is away or overloaded, before it changed anything."""
    if _BEFORE in stderr:
        return True
    return _READING.search(stderr) is not None and _FINAL.search(stderr) is None


def cut_off(stderr: str) -> bool:
    """Tell whether helm ended because the server is away or overloaded, whatever it had changed by then."""
    if nothing_begun(stderr) or _CUT.search(stderr) is not None:
        return True
    reported = _REFUSED.search(stderr) or _LOOKING.search(stderr)
    return reported is not None and _FINAL.search(stderr) is None


# Helm's commands. No secret is ever on its command line.

MINIMUM_VERSION = (3, 14)
GRACE_S = 20.0
_CHART = re.compile(r"(?P<name>.+?)-(?P<version>v?\d+\.\d+.*)")
_SOURCE = re.compile(r"^---\n# Source: (.+)\n", re.MULTILINE)
# `crds/` of the chart or of a subchart. A subchart may itself be named crds, as in prometheus-operator-crds: its CRDs
# are templates, and so belong to the release.
_CRDS = re.compile(r"[^/]+(?:/charts/[^/]+)*/crds/")
# Commands that change the cluster. They are repeated only if nothing had changed.
_WRITING = ("upgrade", "uninstall", "rollback")
# Commands that use the cluster.
_ASKING = (*_WRITING, "list", "get", "history")
# Prefix of helm's own variables for the connection.
_OF_CONNECTION = "HELM_KUBE"
_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


class HelmError(BringupError):
    """Helm ended with an error.

    Attributes:
        cut_off: the API server went away while helm worked.
        two_at_once: another helm has changed the release meanwhile.
    """

    cut_off = False
    two_at_once = False


@dataclass(frozen=True, slots=True)
class Release:
    """One release as helm lists it. `status` is helm's (`deployed`, `failed`, `pending-upgrade`, ...)."""

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
    """The input of `upgrade --install`."""

    name: str
    namespace: str
    chart: ChartSource
    values: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class Helm:
    """Helm for one cluster."""

    def __init__(self, connection: Connection, *, binary: str = "helm", timeout_s: float = 300.0) -> None:
        """Store how to reach the cluster. No command is run yet."""
        self._binary = binary
        self._timeout_s = timeout_s
        self._connection = connection
        self._env = {**os.environ, **_environment(connection)}
        self._transport: Transport | None = None

    def check_version(self) -> str:
        """Return helm's version.

        Raises:
            NotFoundError: helm is not installed.
            UnavailableError: it is too old, or its output is not a version.
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
        """Return every release of the cluster in any state, by `namespace/name`."""
        result = self._run(["list", "--all-namespaces", "--all", "--max", "0", "--output", "json"], "list")
        try:
            rows = json.loads(result.stdout)
            found = [_release(row) for row in rows]
        except (ValueError, KeyError, TypeError):
            raise UnavailableError("helm list", "unexpected output.", "", (excerpt(result.stdout),)) from None
        return {f"{release.namespace}/{release.name}": release for release in found}

    def values(self, name: str, namespace: str) -> dict[str, Any]:
        """Return the user-supplied values of a release."""
        result = self._run(["get", "values", name, "--namespace", namespace, "--output", "json"], f"get values {name}")
        try:
            found = json.loads(result.stdout) or {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UnavailableError(f"helm get values {name}", "unexpected output.", "", (excerpt(result.stdout),))
        return found

    def manifest(self, name: str, namespace: str) -> str:
        """Return the manifests of a release as helm installed them. They may have Secrets: keep only what is needed."""
        return self._run(["get", "manifest", name, "--namespace", namespace], f"get manifest {name}").stdout

    def upgrade(self, request: ReleaseRequest, *, dry_run: bool = False, take_ownership: bool = False) -> str:
        """Install or upgrade a release and return helm's redacted output. It does not wait for readiness.

        Raises:
            HelmError: helm failed; the reason quotes it.
            DeadlineError: it took too long.
        """
        argv = ["upgrade", request.name, request.chart.reference, *request.chart.options, "--install"]
        argv += ["--namespace", request.namespace, "--create-namespace", "--history-max", "5", "--hide-notes"]
        # Without values of its own helm would reuse those of the last revision, also those set by hand.
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
            kube_version: version of the cluster that it is for. Without it helm takes the one that it was built with,
                and a chart that requires a newer one does not render.
        """
        argv = ["template", request.name, request.chart.reference, *request.chart.options]
        argv += ["--namespace", request.namespace, "--include-crds"]
        argv += ["--kube-version", kube_version] if kube_version else []
        return self._with_values(argv, request, f"template {request.name}").stdout

    def uninstall(self, name: str, namespace: str, *, wait: bool = False) -> bool:
        """Uninstall a release. With `wait` it returns once the objects are gone. Return whether there was one."""
        argv = ["uninstall", name, "--namespace", namespace, "--ignore-not-found"]
        # Helm's own limit is the shorter one, so that helm can report what it waits for.
        argv += ["--wait", "--timeout", f"{max(1, int(self._timeout_s - GRACE_S))}s"] if wait else []
        return "uninstalled" in self._run(argv, f"uninstall {name}").stdout

    def crds(self, request: ReleaseRequest, kube_version: str) -> str:
        """Return the CRDs in a chart's `crds/` as YAML documents. Helm installs them once and never changes them.

        The version is that of the cluster. `helm show crds` joins files without a separator, so they are taken from the
        rendered chart.
        """
        sections = _SOURCE.split(self.template(request, kube_version))[1:]
        return "".join(
            f"---\n{text}" for name, text in zip(sections[::2], sections[1::2], strict=True) if _CRDS.match(name)
        )

    def recover(self, name: str, namespace: str) -> tuple[int, str]:
        """Repair a release on which a helm died. Return its newest revision and what was done.

        It is rolled back to the last revision that worked. If none ever worked it is uninstalled (revision 0).

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
        # By standard input: a file would be left behind if this process and helm are killed.
        return self._run([*argv, "--values", "-"], what, stdin=json.dumps(request.values))

    def _run(self, arguments: Sequence[str], what: str, stdin: str = "") -> CommandResult:
        """Run helm, and retry while the API server is away as far as that is safe."""
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
        transport = self._to_cluster() if arguments[0] in _ASKING else None
        if transport is None:
            return self._started(arguments, what, stdin, self._env)
        from .repeater import repeating

        with repeating(transport) as between, memory_file(between.kubeconfig()) as kubeconfig:
            env = {name: value for name, value in self._env.items() if not name.startswith(_OF_CONNECTION)}
            result = self._started(arguments, what, stdin, env | {"KUBECONFIG": kubeconfig})
            # Messages name the server by its own address, which is also the one that its errors are matched by.
            return replace(
                result,
                stdout=result.stdout.replace(between.url, transport.host),
                stderr=result.stderr.replace(between.url, transport.host),
            )

    def _to_cluster(self) -> Transport | None:
        """Return the transport to the cluster. None where helm is to connect by itself.

        That is where the environment has helm's own settings, or where the connection cannot be read: helm reports it.
        """
        if any(name.startswith(_OF_CONNECTION) for name in os.environ):
            return None
        if self._transport is None:
            try:
                self._transport = Transport(self._connection)
            except BringupError:
                return None
        return self._transport

    def _started(self, arguments: Sequence[str], what: str, stdin: str, env: Mapping[str, str]) -> CommandResult:
        argv = [self._binary, *arguments]
        try:
            # On SIGTERM helm cancels its work and marks the release as failed, which the next upgrade accepts.
            result = run_command(argv, self._timeout_s, stdin=stdin, env=env, grace_s=GRACE_S)
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
    """Return helm's error in one line. Several causes and violations of a schema are in the lines after the first."""
    lines = [line.strip() for line in redact(stderr).splitlines() if line.strip()]
    begins = [number for number, line in enumerate(lines) if line.lower().startswith("error")]
    reported = lines[begins[0] :] if begins else lines[-1:] or ["ended with an error and said nothing"]
    text = reported[0]
    for number, line in enumerate(line for line in reported[1:] if not line.startswith("Use --debug flag")):
        text += ("" if text.endswith(":") else ";" if number else ":") + f" {line.removeprefix('* ')}"
    return excerpt(text).replace("\n", " ")


_HINTS = (
    ("another operation", "another helm works on it or died: helm history <release>; then helm rollback <release>"),
    ("release: already exists", "another helm works on it: helm list -A -a; run again when that one has ended"),
    (
        "cannot be imported into the current release",
        "it is somebody else's: add its component to gpufleet_gpu_stack_adopt",
    ),
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


# One manifest file with template expressions, rendered by Helm itself: a temporary chart is put around it.
#
# So every function has Helm's meaning, and one that Helm does not know is an error with the line in the file.

_FILE = "manifest.yaml"
_TEMPLATED_VERSION = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_PLACE = re.compile(rf"[^ (]*templates/{re.escape(_FILE)}:(\d+)(?::\d+)?\)?")
_WHOLE = re.compile(rf"[^ (]*templates/{re.escape(_FILE)}")
_TEMPLATED_SOURCE = re.compile(r"^# Source: .*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Templated:
    """A file and the input of its expressions: `.Chart` and `.Release` of its component, and the values.

    `.Values` are the component's own and, under the component's name, the same again, as in upstream's manifests.
    """

    file: str
    text: str
    component: str
    namespace: str
    version: str
    values: Mapping[str, Any]


def render(templated: Templated, binary: str = "helm") -> str:
    """Return the plain manifests of a file. No cluster is used.

    Raises:
        InputError: an unknown function, a missing value, or another error of Helm, with file and line.
        NotFoundError: helm is not installed.
        DeadlineError: helm took too long.
    """
    version = templated.version if _TEMPLATED_VERSION.fullmatch(templated.version) else "0.0.0"
    about = json.dumps({"apiVersion": "v2", "name": templated.component, "version": version})
    files = {"Chart.yaml": about, f"templates/{_FILE}": templated.text}
    with memory_file(_archive(templated.component, files)) as path:
        request = ReleaseRequest(
            name=templated.component,
            namespace=templated.namespace,
            chart=ChartSource(path, (), templated.file),
            values={**templated.values, templated.component: dict(templated.values)},
        )
        try:
            text = Helm(Connection(), binary=binary, timeout_s=60.0).template(request)
        except HelmError as error:
            raise _problem(templated, error.reason) from None
    return _TEMPLATED_SOURCE.sub("", text)


def _archive(name: str, files: Mapping[str, str]) -> bytes:
    """Return a packed chart of these files."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for place, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"{name}/{place}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return packed.getvalue()


def _problem(templated: Templated, reported: str) -> InputError:
    place = _PLACE.search(reported)
    line = f":{place[1]}" if place else ""
    reported = re.sub(r"^Error: ", "", reported)
    reported = _WHOLE.sub(templated.file, _PLACE.sub("here", reported))
    hint = "correct the file, or put a plain one at the same path into a private recipe directory"
    return InputError(f"{templated.file}{line}", f"helm cannot render it: {reported[:400]}", hint)
