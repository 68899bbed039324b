# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`/metrics` of a vLLM server: how many requests each of its engines has finished.

vLLM counts them in `vllm:request_success_total` with the labels `engine`, `finished_reason` and `model_name`
(vllm/v1/metrics/loggers.py since v0.11); with several API servers it sums up what each of them counted.
"""

from __future__ import annotations

import re

from .text import unreadable

TOOL = "vLLM /metrics"
_COUNTER = "vllm:request_success_total"
_SAMPLE = re.compile(r"vllm:request_success_total\{([^}]*)\} ([0-9.eE+]{1,32})(?: [0-9]{1,32})?")
_ENGINE = re.compile(r'(?:^|,)engine="([0-9]{1,6})"')
# Longer than any line of it; what is longer is no line of it.
_LONGEST = 2000


def finished_requests(text: str) -> dict[int, int]:
    """Return the number of finished requests by engine.

    Raises:
        InputError: no engine is listed, or a line that counts cannot be read.
    """
    found: dict[int, int] = {}
    for line in text.splitlines():
        if not line.startswith(f"{_COUNTER}{{"):
            continue
        sample = _SAMPLE.fullmatch(line.strip()) if len(line) <= _LONGEST else None
        engine = _ENGINE.search(sample.group(1)) if sample else None
        if sample is None or engine is None:
            raise unreadable(TOOL, line, f"{_COUNTER} with the label engine and a number")
        try:
            count = float(sample.group(2))
        except ValueError:
            raise unreadable(TOOL, line, "a number") from None
        number = int(engine.group(1))
        found[number] = found.get(number, 0) + int(count)
    if not found:
        raise unreadable(TOOL, f"no {_COUNTER}", "one line for each engine")
    return found
