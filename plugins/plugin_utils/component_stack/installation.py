# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is installed on a cluster, as observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..clients.helm.helm import Release
from .model import MANAGED_BY, MANAGED_BY_LABEL, REVISION_LABEL

if TYPE_CHECKING:
    from .owners import Existing


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is installed: helm's releases, and the labels of each release, by `namespace/name`.

    A component without chart counts as a release. A release whose manifests are not applied as in the recipe has status
    `incomplete`.

    Args:
        releases: the releases.
        labels: labels of the newest revision.
        foreign: unmanaged objects of manifests, by release.
        drift: what was changed by hand in a release of ours.
        unread: why that is not known, by release.
        existing: unmanaged installations of components, by component.
        leftovers: CRDs of components that are not installed, by component.
        by_recipe: this is what another recipe installs, and no cluster was read.
    """

    releases: Mapping[str, Release] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    foreign: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drift: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    existing: Mapping[str, Existing] = field(default_factory=dict)
    leftovers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_recipe: bool = False

    def is_ours(self, key: str) -> bool:
        """Whether we installed or adopted that release."""
        return self.labels.get(key, {}).get(MANAGED_BY_LABEL) == MANAGED_BY

    def is_our_revision(self, key: str) -> bool:
        """Whether we made the newest revision of that release."""
        return self.is_ours(key) and self.labels[key].get(REVISION_LABEL) == str(self.releases[key].revision)
