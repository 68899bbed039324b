# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Site profiles: what each kind of place lets us look at, and why it lacks the rest (recipes/site_profiles.yaml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..outcome.errors import InputError, NotFoundError
from ..runtime.strict import decode, nearest_hint, read_yaml
from .model import SiteProfile

FILE_NAME = "site_profiles.yaml"
# Stands in the reason of each word that a site's own file takes away.
TAKEN_AWAY = "taken away by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of place: `capabilities` are the words that checks may require; `missing` gives the reason for each
    word that it lacks, which the report shows instead of the checks that are not declared there."""

    title: str
    capabilities: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfilesFile:
    words: dict[str, str]
    profiles: dict[str, Profile]
    # Who decided what the profiles of a site's own file lack; that of the collection names nobody.
    author: str = ""


def load_profiles(directories: Sequence[Path]) -> dict[str, Profile]:
    """Return the profile of every SiteProfile value.

    Args:
        directories: recipe directories; each may hold a `site_profiles.yaml`, a later one replaces whole profiles.

    Raises:
        InputError: a file is invalid, a profile does not account for every word, a profile has no entry, or a later
            file takes words away and does not say who decided that.
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
    """Return a profile; where it lacks words of an earlier file, the reason of each has who took it away, and where.

    Every check that needs such a word is not declared: whoever reads the verdict has to see by whose word.
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
