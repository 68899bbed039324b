# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders a template of recipes/workloads/ to Kubernetes objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..outcome.errors import InputError, NotFoundError


def render(template: Path, variables: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of a template, in its order.

    Raises:
        NotFoundError: no such template.
        InputError: it uses a variable that is not given, or does not render to objects.
    """
    import yaml
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    try:
        text = template.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFoundError(f"template {template}", f"cannot be read: {error.strerror}.") from None
    environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    try:
        documents = list(yaml.safe_load_all(environment.from_string(text).render(variables)))
    except TemplateError as error:
        raise InputError(f"template {template}", f"does not render: {error}.", "correct the template") from None
    except yaml.YAMLError as error:
        raise InputError(f"template {template}", f"does not render to YAML: {error}.", "correct the template") from None
    objects = [document for document in documents if document is not None]
    if not objects or not all(isinstance(obj, dict) and {"apiVersion", "kind"} <= obj.keys() for obj in objects):
        raise InputError(f"template {template}", "does not render to Kubernetes objects.", "correct the template")
    return objects
