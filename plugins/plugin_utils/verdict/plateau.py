# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a curve of bandwidth over size has settled."""

from __future__ import annotations

from collections.abc import Mapping


def last_gain(bandwidth: Mapping[int, float]) -> float | None:
    """Return the relative gain of the last doubling of the size, None where the size before was not measured."""
    sizes = sorted(size for size in bandwidth if size > 0)
    if len(sizes) < 2 or sizes[-1] > 4 * sizes[-2] or bandwidth[sizes[-2]] <= 0:
        return None
    return bandwidth[sizes[-1]] / bandwidth[sizes[-2]] - 1
