# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether two texts name the same version of a chart."""

from __future__ import annotations

import re

# Helm parses versions with Masterminds/semver (version.go): a leading `v` is optional, missing numbers are 0.
_VERSION = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+){0,2})(?P<rest>(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?)"
)


def same_chart_version(one: str, other: str) -> bool:
    """Tell whether two texts are the same version. `1.18.2` is `v1.18.2`; another pre-release or build is another one.

    Texts that are no versions are the same only if they are equal.
    """
    return _comparable(one) == _comparable(other)


def _comparable(text: str) -> tuple[tuple[int, ...], str]:
    found = _VERSION.fullmatch(text)
    if found is None:
        return (), text
    numbers = tuple(map(int, found["numbers"].split(".")))
    return (*numbers, 0, 0)[:3], found["rest"]
