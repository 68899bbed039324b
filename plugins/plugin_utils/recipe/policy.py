# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy for queries with a criterion that no layer honours: what to report and what to do."""

from __future__ import annotations

from enum import Enum

from ..outcome.errors import InputError
from .criteria import Criteria
from .model import Catalogue, RecipeResult
from .resolve import BASE
from .support import impossible, not_honoured

# What users of the upstream tool expect.
_FALLBACK = "Its own tool takes the layers that fit: so does this with unsupported=warn (docs/from-aicr.md)."


class Unsupported(str, Enum):
    """What to do with a query that has a criterion which no layer honours."""

    ERROR = "error"
    WARN = "warn"


def unsupported_reason(criteria: Criteria, catalogue: Catalogue) -> tuple[str, str]:
    """Return what is not supported about a query, and what is. Both are empty if all of it is supported."""
    dimensions = catalogue.vocabulary.dimensions
    if all(dimensions[name].advisory for name, _value in criteria.stated):
        known = [name for name in catalogue.vocabulary.names if not dimensions[name].advisory]
        return f"{criteria} chooses no recipe: it is only told.", f"State one of: {', '.join(known)}."
    lost = not_honoured(criteria, catalogue)
    if not lost:
        return "", ""
    if reason := impossible(criteria, catalogue.vocabulary):
        return reason, "State nvlink_domain=node or leave it out, or correct the accelerator."
    from .suggest import suggestions

    words = ", ".join(f"{name}={value}" for name, value in lost)
    near = "; ".join(str(suggestion) for suggestion in suggestions(criteria, catalogue))
    reason = f"no recipe is for {criteria}: no layer that fits honours {words}."
    return reason, f"Nearest supported: {near}." if near else "List what is supported (gpufleet_recipe_command=list)."


def require_supported(result: RecipeResult, catalogue: Catalogue, policy: Unsupported) -> tuple[str, ...]:
    """Return warnings about criteria that no layer honours.

    Raises:
        InputError: there are some and the policy is error, or two of them exclude each other.
    """
    reason, hint = unsupported_reason(result.criteria, catalogue)
    if not reason:
        return ()
    if policy is Unsupported.ERROR or impossible(result.criteria, catalogue.vocabulary):
        raise InputError("criteria", reason, f"{hint} {_FALLBACK}" if catalogue.layers[BASE].foreign else hint)
    return (f"criteria: {reason} {hint}",)
