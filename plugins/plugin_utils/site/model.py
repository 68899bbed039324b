# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The site as the inventory describes it, in one typed value, and the site profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ..outcome.decisions import Acceptance, Quarantine, Waiver
from ..outcome.errors import InputError, NotFoundError
from ..outcome.gates import GATE_IDS
from ..outcome.model import SubjectKind
from ..runtime.strict import decode, nearest_hint, read_yaml

# The site as the inventory describes it, in one typed value for all gates.

# Name of a site without a name (gpufleet_site_name).
NO_SITE = "cluster"


class SiteProfile(str, Enum):
    """Kind of site. It decides which checks can be declared (recipes/site_profiles.yaml)."""

    ON_PREMISES = "on_premises"
    COLOCATION = "colocation"
    CLOUD = "cloud"


class DriverOwner(str, Enum):
    """Owner of the GPU driver: the host (gate nodes) or the GPU Operator (gate gpu_stack)."""

    HOST = "host"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One GPU host of the inventory.

    - `sku`: name or alias in recipes/hardware/.
    - `node_name`: its Kubernetes node.
    - `rack`: may be empty where no facility check is declared.
    - `hcas`: names of its adapters for GPU traffic, rail by rail; empty: those of its SKU.
    - `bmc`: URL of its BMC's Redfish service; empty if the inventory has none.
    """

    name: str
    sku: str
    node_name: str
    rack: str = ""
    hcas: tuple[str, ...] = ()
    bmc: str = ""

    @property
    def node(self) -> str:
        """Its name as a node of Kubernetes or Slurm."""
        return self.node_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePool:
    """One pool of GPU nodes: its criteria beside the site's, and the labels of its nodes."""

    name: str
    criteria: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The site as the inventory describes it.

    - `gates`: scope of this run.
    - `from_gate`: gate at which the run starts; empty: its first.
    - `capabilities`: words that checks may require, from the profile and the inventory.
    - `missing`: by missing capability the reason.
    - `settings`: options by check id or gate id.
    - `check_dirs`: directories with the site's own checks.
    """

    name: str
    profile: SiteProfile
    hosts: tuple[Host, ...]
    gates: tuple[str, ...] = GATE_IDS
    from_gate: str = ""
    capabilities: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    driver_owner: DriverOwner = DriverOwner.HOST
    orchestrator: str = "kubernetes"
    minimum_nodes: int = 0
    criteria: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()
    quarantine: tuple[Quarantine, ...] = ()
    rehearsal: bool = False
    pools: tuple[SitePool, ...] = ()
    check_dirs: tuple[str, ...] = ()
    schema_version: int = 1

    @property
    def adds_nodes(self) -> bool | None:
        """Whether nodes are added to the cluster as pods need them; None if it is not configured."""
        configured = self.settings.get("cluster-autoscaling")
        return None if configured is None else configured.get("added", True) is not False

    @property
    def quarantined(self) -> frozenset[str]:
        """Names of the quarantined hosts."""
        return frozenset(entry.node for entry in self.quarantine)

    @property
    def in_scope(self) -> tuple[Host, ...]:
        """The hosts that the gates are about: all except the quarantined ones."""
        quarantined = self.quarantined
        return tuple(host for host in self.hosts if host.name not in quarantined)

    @property
    def before_from_gate(self) -> tuple[str, ...]:
        """Gates in scope that do not run if their results can be taken over from earlier runs."""
        return self.gates[: self.gates.index(self.from_gate)] if self.from_gate else ()

    @property
    def racks(self) -> tuple[str, ...]:
        """Names of the racks of all hosts, sorted. A quarantined host still draws power."""
        return tuple(sorted({host.rack for host in self.hosts if host.rack}))

    @property
    def without_equal(self) -> tuple[Host, ...]:
        """Hosts in scope whose SKU no other host of the site has; empty on a site with a single host."""
        counts = Counter(host.sku for host in self.hosts)
        alone = tuple(host for host in self.in_scope if counts[host.sku] == 1)
        return alone if len(self.hosts) > 1 else ()

    def expected_subjects(self, kind: SubjectKind) -> tuple[str, ...]:
        """Return the names of the subjects for which a check per that kind has to give results.

        Raises:
            ValueError: subjects of that kind are not known from the inventory alone.
        """
        if kind is SubjectKind.NODE:
            return tuple(host.name for host in self.in_scope)
        if kind is SubjectKind.RACK:
            return self.racks
        if kind in (SubjectKind.SITE, SubjectKind.CLUSTER):
            return (self.name,)
        raise ValueError(f"the inventory does not list subjects of kind {kind.value}")


# Site profiles: what can be observed at each kind of site, and why not the rest (recipes/site_profiles.yaml).

FILE_NAME = "site_profiles.yaml"
# Part of the reason of each capability that a site's own file removes.
TAKEN_AWAY = "taken away by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of site.

    - `capabilities`: words that checks may require.
    - `missing`: reason by missing word. The report shows it instead of the checks that are not declared.
    """

    title: str
    capabilities: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfilesFile:
    words: dict[str, str]
    profiles: dict[str, Profile]
    # Who decided what the profiles of a site's own file lack. The collection's file has no author.
    author: str = ""


def load_profiles(directories: Sequence[Path]) -> dict[str, Profile]:
    """Return the profile of every SiteProfile value.

    Args:
        directories: recipe directories; each may have a `site_profiles.yaml`. A later one replaces whole profiles.

    Raises:
        InputError: a file is invalid, a profile does not account for every word, a profile has no entry, or a later
            file removes words and does not name who decided that.
    """
    known = tuple(profile.value for profile in SiteProfile)
    found: dict[str, Profile] = {}
    for directory in directories:
        path = directory / FILE_NAME
        if not path.is_file():
            continue
        content = decode(_ProfilesFile, read_yaml(path), str(path))
        for name, profile in content.profiles.items():
            if name not in known:
                raise InputError(f"{path}: profiles.{name}", "unknown profile.", nearest_hint(name, known))
            _check_words(f"{path}: profiles.{name}", profile, content.words)
            found[name] = _beside(found.get(name), profile, content.author.strip(), path)
    absent = [name for name in known if name not in found]
    if absent:
        where = ", ".join(str(directory) for directory in directories) or "no directory"
        raise NotFoundError(f"site profile {absent[0]!r}", f"no {FILE_NAME} describes it (read: {where}).")
    return found


def _beside(shipped: Profile | None, profile: Profile, author: str, path: Path) -> Profile:
    """Return a profile. If it lacks words of an earlier file, the reason of each names the author and the file.

    Checks that need such a word are not declared, so a reader of the verdict has to see who removed it.
    """
    taken = sorted(set(shipped.capabilities) - set(profile.capabilities)) if shipped else []
    if not taken:
        return profile
    if not author:
        reason = f"takes {', '.join(taken)} away from a profile and names nobody who decided it."
        raise InputError(f"{path}: author", reason, "state `author: NAME` in that file; the report shows it")
    own = {word: f"{profile.missing[word]} ({TAKEN_AWAY} {author} in {path})" for word in taken}
    return replace(profile, missing={**profile.missing, **own})


def _check_words(where: str, profile: Profile, words: dict[str, str]) -> None:
    for word in (*profile.capabilities, *profile.missing):
        if word not in words:
            raise InputError(where, f"unknown capability {word!r}.", nearest_hint(word, words))
    for word in words:
        if (word in profile.capabilities) == (word in profile.missing):
            reason = f"capability {word!r} must be listed either in capabilities or, with its reason, in missing."
            raise InputError(where, reason, "nothing else may drop a check silently")
        if not profile.missing.get(word, "stated").strip():
            raise InputError(where, f"the reason why {word!r} is missing is empty.", "say why")
