# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How answers are written: data on standard output, what else there is to know on standard error."""

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
    """Write lines for people to standard output; what would move a cursor is shown as its number."""
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))


def note(lines: Iterable[str]) -> None:
    """Say on standard error where the answer comes from."""
    sys.stderr.write("".join(f"gpufleet: {visible(line)}\n" for line in lines))


def warn(lines: Iterable[str]) -> None:
    """Say on standard error what the reader should know beside the answer."""
    sys.stderr.write("".join(f"gpufleet: warning: {visible(line)}\n" for line in lines))
