# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes YAML that every reader reads back the same, whichever version of YAML it implements.

PyYAML quotes texts that its own version, 1.1, would read as something else. Helm, kubectl and upstream's tool know the
numbers of 1.2 too: they would read a tag such as `12345e7` as a number.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from .yaml_text import ODD, scalar

# Numbers of YAML 1.2's core schema, of 1.1 and of readers of both: signs, bases, underscores, exponents. ruamel.yaml
# also reads underscores alone as one (`-_`).
_LIKE_A_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[0-9_]+"
    r"|(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_ODD_START = re.compile(f"[{ODD}]")
# Booleans of YAML 1.1 that PyYAML does not know.
_WORDS = frozenset("yYnN")


def needs_quotes(text: str) -> bool:
    """Tell whether some reader would take an unquoted text for something else."""
    # Our own reader refuses a text that begins with an odd space as a typing error.
    looks_other = _LIKE_A_NUMBER.fullmatch(text) or _ODD_START.match(text)
    return text in _WORDS or bool(looks_other) or not isinstance(scalar(text), str)


@cache
def _dumper() -> type[Any]:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # C or Python, as there is
        """PyYAML's writer with more texts in quotes and without anchors."""

        def ignore_aliases(self, _data: Any) -> bool:
            """Write a repeated value in full each time."""
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="'" if needs_quotes(value) else None)

    Dumper.add_representer(str, text)
    return Dumper


def dump_yaml(data: Any) -> str:
    """Return plain data as YAML with sorted keys. The same data always gives the same bytes."""
    import yaml

    return str(yaml.dump(data, Dumper=_dumper(), sort_keys=True, allow_unicode=True, width=120))
