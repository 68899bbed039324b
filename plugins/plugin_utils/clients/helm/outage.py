# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which words of helm mean that the API server is away, and whether helm had begun by then; which that another helm
works on the release. Pure."""

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
    """Tell whether helm ended because the server is away, before it changed anything."""
    return _BEFORE in stderr


def cut_off(stderr: str) -> bool:
    """Tell whether helm ended because the server went away, whatever it had done by then."""
    return nothing_begun(stderr) or _CUT.search(stderr) is not None
