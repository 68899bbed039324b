# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the phases of a validation must be allowed to do: what the snapshot of readiness reads, what the gates of their
checks do short of installing, and what it takes to run the site's validator images."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..clients.kube.permission import Permission
from ..collect.snapshot import RIGHTS_OF
from ..outcome.gates import PHASE_GATES, READINESS
from .rights import CONTACT, LEVELS, Choices, needed_rights, role_name
from .validators.catalog import ValidatorImage

OBSERVE, TEST = LEVELS[:2]


def phase_rights(
    phases: Collection[str],
    levels: Collection[str],
    choices: Choices,
    *,
    collectors: Iterable[str],
    images: Iterable[ValidatorImage] = (),
) -> dict[Permission, str]:
    """Return what these phases need, each with the role that holds it; none where no role of ours does.

    Args:
        phases: of a validation, which installs nothing.
        levels: of LEVELS; `install` counts for nothing.
        choices: the site's choices.
        collectors: those of the snapshot that readiness takes.
        images: the site's validators; those of other phases count for nothing.
    """
    from .validators.observe import RIGHTS as RUNNING

    found: dict[Permission, str] = {}
    if READINESS in phases:
        read = (*CONTACT, *(entry for name in collectors for entry in RIGHTS_OF.get(name, ())))
        found |= dict.fromkeys(read, role_name("snapshot", OBSERVE))
    gates = dict.fromkeys(gate for phase in phases for gate in PHASE_GATES[phase])
    found = needed_rights(gates, [level for level in levels if level in (OBSERVE, TEST)], choices) | found
    run = [image for image in images if image.phase in phases] if TEST in levels else []
    if run:
        found = dict.fromkeys(RUNNING, role_name("validators", TEST)) | found
        found = dict.fromkeys((entry for image in run for entry in given_away(image)), "") | found
    return found


def given_away(image: ValidatorImage) -> tuple[Permission, ...]:
    """Return what a validator's account is given, which whoever gives it must hold (kubernetes.io, "Using RBAC
    Authorization": restrictions on role creation or update)."""
    return tuple(
        Permission(verb, resource.partition("/")[0], group, subresource=resource.partition("/")[2])
        for rule in image.rules or ()
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    )
