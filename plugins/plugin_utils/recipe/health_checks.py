# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Health checks of components in files of a tree: those that the registry names, and upstream's deploy gates.

The registry's are part of the recipe, as upstream resolves it (NVIDIA/aicr, pkg/recipe/metadata_store.go:
hydrateHealthCheckAsserts). Upstream releases of the first dialect never read them. A `readiness.yaml` beside a
component's values is what upstream's deployers wait for; it is added for the installation.
"""

from __future__ import annotations

from ..outcome.errors import InputError
from .dialect import Dialect
from .model import Catalogue, ComponentRef
from .tree import OTHER_TREE, read_text

_READINESS = "components/{}/readiness.yaml"


def assert_file(name: str, catalogue: Catalogue) -> str:
    """Return the health check file of a component. Empty if its registry entry names none."""
    entry = catalogue.registry.get(name)
    if entry is None or catalogue.dialect is not Dialect.CURRENT:
        return ""
    return str((entry.data.get("healthCheck") or {}).get("assertFile") or "")


def readiness_file(name: str, catalogue: Catalogue) -> str:
    """Return the deploy gate file of a component. Empty if its tree has none."""
    file = _READINESS.format(name)
    return file if file in catalogue.files and catalogue.dialect is Dialect.CURRENT else ""


def registry_asserts(component: ComponentRef, catalogue: Catalogue) -> str:
    """Return the health check of a component: its own, else that of its registry entry unless a layer skips it.

    Raises:
        InputError: the file cannot be read.
    """
    if component.health_check_asserts or component.health_check_skip:
        return component.health_check_asserts
    return _text(assert_file(component.name, catalogue), catalogue)


def installed_asserts(component: ComponentRef, catalogue: Catalogue) -> str:
    """Return all assertions about a component once it is installed: its health check and its deploy gate.

    Raises:
        InputError: a file cannot be read.
    """
    if component.health_check_skip:
        return component.health_check_asserts
    own, gate = component.health_check_asserts, _text(readiness_file(component.name, catalogue), catalogue)
    if not gate:
        return own
    return gate if not own or _is_empty(own) else f"{own.rstrip()}\n---\n{gate}"


def _is_empty(text: str) -> bool:
    """Tell whether a health check is a test without steps, as for components of OLM: the deploy gate has them."""
    # Imported here: it loads the whole model of outcomes, which commands that only print a recipe do not need.
    from ..runtime.strict import parse_yaml_documents

    try:
        tests = parse_yaml_documents(text, "")
    except InputError:
        return False
    return all(isinstance(test, dict) and (test.get("spec") or {}).get("steps") == [] for test in tests)


def _text(file: str, catalogue: Catalogue) -> str:
    if file and file not in catalogue.texts:
        path = catalogue.files.get(file)
        if path is None:
            raise InputError(f"health check {file}", "does not exist in any tree.", OTHER_TREE)
        catalogue.texts[file] = read_text(path)
    return catalogue.texts[file] if file else ""
