# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a module with a check must have: a CHECK whose judge takes what its observer makes."""

from __future__ import annotations

from types import ModuleType
from typing import Any, get_type_hints

from ..outcome.errors import BringupError
from .spec import Check, Observer

AnyCheck = Check[Any]
AnyObserver = Observer[Any]


def verified(module: ModuleType) -> AnyCheck:
    """Return the check of a module; what mypy reports in our own files is refused here in any file.

    Raises:
        BringupError: it has none, or its judge takes something else than its observer makes.
    """
    check = getattr(module, "CHECK", None)
    if not isinstance(check, Check):
        raise _defect(module, "has a SPEC and no CHECK = Check(SPEC, OBSERVER, judge).")
    takes = next(iter(get_type_hints(check.judge).values()), None)
    if takes is not check.observer.result:
        made = check.observer.result.__name__
        raise _defect(module, f"its judge takes {takes}, and observer {check.observer.key!r} makes {made}.")
    return check


def _defect(module: ModuleType, text: str) -> BringupError:
    return BringupError(f"check module {module.__name__}", text, "correct the file, or report it as a defect")
