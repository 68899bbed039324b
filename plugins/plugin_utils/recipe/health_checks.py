# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Health checks that a tree has for its components, in files: what the registry names, and upstream's deploy gates.

The registry's are part of the recipe, as upstream resolves it (NVIDIA/aicr, pkg/recipe/metadata_store.go:
hydrateHealthCheckAsserts); its releases of the first dialect never read them. A `readiness.yaml` beside a component's
values is what upstream's deployers wait for, and joins them for whoever installs.
"""

from __future__ import annotations

from ..outcome.errors import InputError
from .dialect import Dialect
from .model import Catalogue, ComponentRef
from .tree import OTHER_TREE, read_text

_READINESS = "components/{}/readiness.yaml"


def assert_file(name: str, catalogue: Catalogue) -> str:
    """Return the file with the health check of a component; empty if its registry entry names none."""
    entry = catalogue.registry.get(name)
    if entry is None or catalogue.dialect is not Dialect.CURRENT:
        return ""
    return str((entry.data.get("healthCheck") or {}).get("assertFile") or "")


def readiness_file(name: str, catalogue: Catalogue) -> str:
    """Return the file with the deploy gate of a component; empty if its tree has none."""
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
    """Return all that is asserted of a component once it is installed.

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
    """Tell whether a health check is a test without steps, as those of what OLM installs: the gate has them."""
    # Not at the top: whoever prints a recipe has no gate, and it loads all of what outcomes are.
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
