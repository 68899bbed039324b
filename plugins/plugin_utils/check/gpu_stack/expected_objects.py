# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a recipe expects in the cluster in addition to the workloads of its charts, and what was observed of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...component_stack.chainsaw import Assertion, assertions_of
from ...outcome.errors import InputError

# Capability of a site whose recipe has such expectations, and the fields of the recipe with them.
EXPECTED = "expected_resources"
EXPECTED_KEYS = ("expectedResources", "healthCheckAsserts")
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet", "Job")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedObject:
    """One expected object of a component. For a workload: how many of its pods are wanted and ready.

    `there` is None if it could not be read. `problem` is why, or why no pod is ready.
    """

    component: str
    kind: str
    name: str
    namespace: str = ""
    there: bool | None = None
    desired: int | None = None
    ready: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAssertion:
    """One assertion of a component's health check, with the observed parts of the objects that it is about.

    `objects` is by `namespace/name`. None: they could not be read, `problem` is why.
    """

    component: str
    number: int
    objects: dict[str, Any] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedState:
    """The whole observation, with the assertions of the recipe at that time, by component."""

    objects: tuple[ExpectedObject, ...] = ()
    assertions: tuple[SeenAssertion, ...] = ()
    schema_version: int = 1


def expected_in(recipe: Mapping[str, Any]) -> tuple[ExpectedObject, ...]:
    """Return what a recipe expects, not observed yet. An object without a namespace is in that of its component."""
    return tuple(
        ExpectedObject(
            component=str(ref["name"]),
            kind=str(entry["kind"]),
            name=str(entry["name"]),
            namespace=str(entry.get("namespace") or ref.get("namespace") or ""),
        )
        for ref in recipe.get("componentRefs") or ()
        for entry in ref.get("expectedResources") or ()
    )


def asserted_in(recipe: Mapping[str, Any]) -> Iterator[tuple[str, int, Assertion]]:
    """Yield component, number and assertion of every health check that is supported.

    A skipped health check has none.
    """
    for component, text in _health_checks(recipe):
        found = _assertions(component, text)
        if not isinstance(found, InputError):
            yield from ((component, number, entry) for number, entry in enumerate(found))


def unknown_in(recipe: Mapping[str, Any]) -> dict[str, InputError]:
    """Return by component why its health check is not supported, so that it was not evaluated."""
    found = {component: _assertions(component, text) for component, text in _health_checks(recipe)}
    return {component: error for component, error in found.items() if isinstance(error, InputError)}


def nothing_asserted_in(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the components whose health check is skipped by the recipe, or declares that it asserts nothing."""
    skipped = [str(ref["name"]) for ref in recipe.get("componentRefs") or () if ref.get("healthCheckSkip")]
    return (*skipped, *(component for component, text in _health_checks(recipe) if _assertions(component, text) == ()))


def _health_checks(recipe: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for ref in recipe.get("componentRefs") or ():
        text = str(ref.get("healthCheckAsserts") or "")
        if text and not ref.get("healthCheckSkip"):
            yield str(ref["name"]), text


def _assertions(component: str, text: str) -> tuple[Assertion, ...] | InputError:
    try:
        return assertions_of(text, f"healthCheckAsserts of component {component}")
    except InputError as error:
        return error
