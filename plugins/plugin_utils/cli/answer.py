# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How results are written: data to standard output, notes and warnings to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from ..runtime.text import visible


def formatted(data: Any, form: str) -> str:
    """Return plain data as JSON or YAML."""
    if form == "json":
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    from ..recipe.yaml_dump import dump_yaml

    return dump_yaml(data)


def write(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines of text to standard output; control characters are shown as their number."""
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))


def note(lines: Iterable[str]) -> None:
    """Write to standard error where the result comes from."""
    sys.stderr.write("".join(f"gpufleet: {visible(line)}\n" for line in lines))


def warn(lines: Iterable[str]) -> None:
    """Write warnings beside the result to standard error."""
    sys.stderr.write("".join(f"gpufleet: warning: {visible(line)}\n" for line in lines))
