# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders a template of recipes/workloads/ to Kubernetes objects: those of a test, and no others.

Whoever may set `gpufleet_settings` decides what stands in the slots, and the objects are made with the controller's
rights. So a slot holds a number, what the template quotes with `tojson`, or a word that means nothing to YAML and
to a shell; and an object is of a kind that a test needs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError, NotFoundError
from ..runtime.plain_yaml import documents

if TYPE_CHECKING:
    from jinja2 import Template

# By group, without versions: these follow the cluster.
KINDS = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Pod"),
        ("", "Secret"),
        ("", "Service"),
        ("apps", "Deployment"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "Job"),
        ("kubeflow.org", "MPIJob"),
        ("monitoring.coreos.com", "AlertmanagerConfig"),
        ("monitoring.coreos.com", "PrometheusRule"),
        ("ray.io", "RayCluster"),
        ("resource.k8s.io", "ResourceClaim"),
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("resource.nvidia.com", "ComputeDomain"),
        ("scheduling.k8s.io", "PodGroup"),
        ("scheduling.run.ai", "PodGroup"),
        ("scheduling.x-k8s.io", "PodGroup"),
        ("scheduling.volcano.sh", "PodGroup"),
    }
)
_COMPILED = 64
_WORD = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_./:@-]*[A-Za-z0-9_])?)?")


def render(template: Path, variables: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of a template, in its order.

    Raises:
        NotFoundError: no such template.
        InputError: it uses a variable that is not given, a slot would be filled with more than a word, or it does not
            render to objects of a test.
    """
    from jinja2 import TemplateError

    try:
        text = template.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFoundError(f"template {template}", f"cannot be read: {error.strerror}.") from None
    try:
        found = documents(_compiled(template, text).render(variables))
    except TemplateError as error:
        raise InputError(f"template {template}", f"does not render: {error}.", "correct the template") from None
    except ValueError as error:
        raise InputError(f"template {template}", f"does not render to YAML: {error}.", "correct the template") from None
    objects = [document for document in found if document is not None]
    if not objects or not all(isinstance(obj, dict) and {"apiVersion", "kind"} <= obj.keys() for obj in objects):
        raise InputError(f"template {template}", "does not render to Kubernetes objects.", "correct the template")
    for obj in objects:
        if (group_of(str(obj["apiVersion"])), obj["kind"]) not in KINDS:
            reason = f"makes a {obj['kind']} of {obj['apiVersion']}, which no test needs."
            raise InputError(
                f"template {template}", reason, f"kinds: {', '.join(sorted({kind for _group, kind in KINDS}))}"
            )
    return objects


@lru_cache(maxsize=_COMPILED)
def _compiled(template: Path, text: str) -> Template:
    """Return a template ready to render: a gate fills the same one for every node, and compiling takes the longest.

    Raises:
        TemplateError: it is none.
    """
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=lambda value: _filled(template, value)
    )
    return environment.from_string(text)


def group_of(api_version: str) -> str:
    """Return the API group of `group/version`; empty for the core's."""
    return api_version.rpartition("/")[0]


def _filled(template: Path, value: Any) -> Any:
    """Return what a slot is filled with, as Jinja's `finalize`.

    Raises:
        InputError: it is text that could be more than a word.
    """
    from markupsafe import Markup

    if isinstance(value, (int, float, Markup)) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    if type(value).__name__ == "StrictUndefined":
        # Jinja's own error names the variable.
        return value
    shown = str(value)[:80]
    raise InputError(
        f"template {template.name}",
        f"would be given {shown!r}, which is no plain word.",
        "correct the setting that it comes from: letters, digits and _ . / : @ -",
    )
