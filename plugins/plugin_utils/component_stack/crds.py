# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Definitions of a chart's `crds/`: helm installs them once and never upgrades them, so we do.

The rule: before helm installs or upgrades a chart its definitions are applied by the server (server-side apply), unless
objects are stored in a version that the new definition has no more. Then nothing is touched, and a person decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.conditions import is_true
from ..clients.kube.errors import ForbiddenError
from ..clients.kube.kinds import CRDS
from ..outcome.errors import BringupError, DeadlineError, InputError, NotFoundError
from ..runtime.clock import Deadline
from ..runtime.plain_yaml import PlainYamlError, documents
from ..runtime.progress import Emit

Json = dict[str, Any]
_SERVED_S = 60.0


def apply_crds(cluster: Cluster, text: str, component: str, emit: Emit, *, installs: bool) -> tuple[str, ...]:
    """Bring the cluster's definitions to those of the chart, and return the names of those that changed.

    Args:
        cluster: the cluster.
        text: the definitions as YAML, one document each.
        component: name of the component, for messages.
        emit: takes the progress line.
        installs: helm installs the chart, and makes the definitions that are not there.

    Raises:
        BringupError: a definition cannot be read, lacks a version in which objects are stored, or is refused.
    """
    changed = []
    for body, live in _to_apply(cluster, text, component, installs):
        name = body["metadata"]["name"]
        done = cluster.apply(CRDS, body, force=True)
        if live is None:
            _established(cluster, name, component)
        if live is None or done["metadata"].get("generation") != live["metadata"].get("generation"):
            changed.append(name)
    if changed:
        emit(f"{component}: definitions brought to the chart's: {', '.join(changed)}")
    return tuple(changed)


def preview_crds(cluster: Cluster, text: str, component: str, *, installs: bool) -> bool:
    """Let the server compute what apply_crds would do, and tell whether it says (arguments and errors as there)."""
    for body, _live in _to_apply(cluster, text, component, installs):
        try:
            cluster.apply(CRDS, body, dry_run=True, force=True)
        except ForbiddenError:
            # Who only looks may not ask either.
            return False
    return True


def await_served(cluster: Cluster, manifest: str, component: str) -> None:
    """Wait until the server serves the kinds that a release defines among its templates.

    What comes after it has objects of them, and none of them is a workload that is waited for.

    Raises:
        BringupError: the manifest cannot be read, or a definition is not served in time.
    """
    if CRDS.kind not in manifest:
        return
    for body in _documents(manifest, component):
        _established(cluster, body["metadata"]["name"], component)


def _to_apply(cluster: Cluster, text: str, component: str, installs: bool) -> Iterator[tuple[Json, Json | None]]:
    """Yield each definition that is applied, with the one that is there."""
    for body in _documents(text, component):
        name = body["metadata"]["name"]
        live = cluster.find(CRDS, name)
        if live is None and installs:
            continue
        if live is not None and (lost := _lost_versions(live, body)):
            hint = f"migrate them (kube-storage-version-migrator), then correct status.storedVersions of crd {name}"
            reason = f"objects are stored as {', '.join(lost)}, which the chart's definition has no more."
            raise BringupError(f"component {component}: CRD {name}", reason, hint)
        yield body, live


def _established(cluster: Cluster, name: str, component: str) -> None:
    """Wait until the server serves a new kind: helm would not find it."""
    deadline = Deadline.after(_SERVED_S)
    while deadline.left_s > 0:
        live = cluster.find(CRDS, name)
        if live is not None and is_true(live, "Established") and _discovered(cluster, live):
            return
        time.sleep(0.2)
    hint = f"kubectl describe crd {name}"
    raise DeadlineError(f"component {component}: CRD {name}", f"not served after {_SERVED_S:g} s.", hint)


def _discovered(cluster: Cluster, live: Json) -> bool:
    """Whether clients find the kind: the list of kinds follows a definition that is established by some seconds."""
    spec = live.get("spec") or {}
    served = [str(version["name"]) for version in spec.get("versions") or [] if version.get("served")]
    try:
        for version in served:
            cluster.kind(f"{spec['group']}/{version}", str(spec["names"]["kind"]))
    except NotFoundError:
        return False
    return True


def _documents(text: str, component: str) -> list[Json]:
    try:
        bodies = documents(text)
    except PlainYamlError as error:
        raise InputError(f"component {component}", f"its crds/ is not YAML: {error}.", "take another chart") from None
    found = [body for body in bodies if isinstance(body, dict) and body.get("kind") == CRDS.kind]
    for body in found:
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
            raise InputError(
                f"component {component}", "its crds/ holds a definition without a name.", "correct the chart"
            )
    return found


def _lost_versions(live: Json, body: Json) -> list[str]:
    stored = (live.get("status") or {}).get("storedVersions") or []
    known = {str(version.get("name")) for version in (body.get("spec") or {}).get("versions") or []}
    return [str(version) for version in stored if str(version) not in known]
