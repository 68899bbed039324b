# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Permissions that the phases of a validation need on the cluster.

They cover the collectors of the readiness snapshot, what the gates of the phases' checks do short of installing, and
running the site's validator images.
"""

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
    """Return what these phases need, each permission with the role that grants it.

    The role is empty for what a validator's own account needs: no role of ours grants that.

    Args:
        phases: phases of a validation, which installs nothing.
        levels: of LEVELS; `install` adds nothing.
        choices: the site's choices.
        collectors: those of the snapshot that readiness takes.
        images: the site's validators; those of other phases add nothing.
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
    """Return the permissions of a validator's account. Whoever creates its role must have them itself (kubernetes.io,
    "Using RBAC Authorization": restrictions on role creation or update)."""
    return tuple(
        Permission(verb, resource.partition("/")[0], group, subresource=resource.partition("/")[2])
        for rule in image.rules or ()
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    )
