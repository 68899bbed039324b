# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which words of helm mean that the API server is away or has no time, and whether helm had begun by then; which that
another helm works on the release. Pure.

client-go, with which helm asks, repeats a 429 or 5xx by itself only where it carries `Retry-After`: an answer without,
such as that of a load balancer, ends helm. Its words are those of kubernetes/apimachinery, pkg/api/errors/errors.go
(NewGenericServerResponse), or the message of the server's own Status, which may be anything.
"""

from __future__ import annotations

import re

# What changes a cluster asks for its version before anything else (helm/helm, pkg/kube/client.go: IsReachable).
_BEFORE = "Kubernetes cluster unreachable"
# How Go's HTTP client words a request that the server did not answer; addresses of chart repositories have other paths.
_CUT = re.compile(
    r'(?:Get|Post|Put|Patch|Delete) "https?://[^/" ]+/(?:version|apis?/|openapi/)[^"]*": [^\n]*'
    r"(?:connection refused|connection reset|broken pipe|EOF|TLS handshake timeout|i/o timeout|no route to host)"
    r"|http2: client connection lost|etcdserver: (?:leader changed|request timed out)"
)
# Where helm makes several objects it lists what each met, and where it changes one it names it, each with the words of
# the server's Status alone (pkg/kube/client.go).
_REFUSED = re.compile(
    r"the server has received too many requests and has asked us to try again later|Too many requests"
    r"|the server is currently unable to handle the request|the server was unable to return a response in the time"
    r"|an error on the server \(.*\) has prevented the request from succeeding|apiserver is shutting down"
    r"|error trying to reach service|Internal error occurred: (?!failed calling )|\d+ errors? occurred:"
    r'|cannot patch "[^"]*" with kind |failed to (?:create resource|replace object|refresh resource)',
    re.DOTALL,
)
# What helm does before it records a revision: it reads those that there are, asks what the cluster serves, makes the
# namespace and definitions that are not there yet, and looks whose the objects are (helm/helm, pkg/storage/driver,
# pkg/action/install.go, validate.go). After that an upgrade may be repeated as if nothing had been.
_READING = re.compile(
    r"query: failed to query with labels: |list: failed to list: |get: failed to get |failed to install CRD "
    r"|Unable to continue with (?:install|update): could not get information about|could not get server version"
    r"|unable to build kubernetes objects from |failed to download openapi"
)
# What helm asks of each object while it changes the cluster, which changes nothing itself (pkg/kube/client.go).
_LOOKING = re.compile(r"could not get information about the resource")
# What stays as it is however often it is asked. Objects are not validated where the schemas could not be fetched, which
# helm words as a validation that failed (kubectl/pkg/validation, `failed to download openapi`).
_FINAL = re.compile(
    r"forbidden|[Uu]nauthorized|not found|could not find the requested resource|no matches for kind|already exists"
    r"|is invalid|denied the request|failed calling webhook|Apply failed with|cannot (?:list|get|create)|x509:"
    r'|error validating(?! (?:"[^"]*": error validating )?data: failed to download openapi)'
)
# helm/helm: `ErrReleaseExists` of pkg/storage/driver/driver.go, pkg/action/upgrade.go and pkg/action/install.go, whose
# word had a hyphen before 3.19.
_TWO_AT_ONCE = re.compile(
    r"release: already exists|another operation \(install/upgrade/rollback\) is in progress"
    r"|cannot re-?use a name that is still in use"
)


def two_at_once(stderr: str) -> bool:
    """Tell whether helm ended because another helm has worked on the release since it looked."""
    return _TWO_AT_ONCE.search(stderr) is not None


def nothing_begun(stderr: str) -> bool:
    """Tell whether helm ended because the server is away or has no time, before it changed anything."""
    if _BEFORE in stderr:
        return True
    return _READING.search(stderr) is not None and _FINAL.search(stderr) is None


def cut_off(stderr: str) -> bool:
    """Tell whether helm ended because the server went away or refused to answer, whatever it had done by then."""
    if nothing_begun(stderr) or _CUT.search(stderr) is not None:
        return True
    said = _REFUSED.search(stderr) or _LOOKING.search(stderr)
    return said is not None and _FINAL.search(stderr) is None
