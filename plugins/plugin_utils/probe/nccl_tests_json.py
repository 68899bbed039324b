# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the JSON file that nccl-tests writes with `-J` (2.17.4 and later).

The file has the whole environment of the run, with secrets. It is never read, and `without_environment` removes it
before the file is kept. Booleans are text, missing numbers are the text `nan`.
"""

from __future__ import annotations

import json
from typing import Any

from .nccl_tests import TOOL, Half, NcclTest, RankLine, Row, rate
from .text import unreadable

Json = dict[str, Any]


def parse(text: str) -> NcclTest:
    """Return the results of the run.

    Raises:
        InputError: not such a file, no result, or a figure that is missing or no number.
    """
    document = _document(text)
    results, config = document.get("results"), _mapping(document.get("config", {}), "config")
    if not isinstance(results, list) or not results:
        raise unreadable(f"{TOOL} -J", "no results", "a result per size")
    bounds = _mapping(document.get("out_of_bounds", {}), "out_of_bounds")
    average = _mapping(document.get("average_bus_bandwidth", {}), "average_bus_bandwidth")
    arguments = [str(word) for word in document.get("args") or []]
    return NcclTest(
        rows=tuple(_row(_mapping(result, "results")) for result in results),
        collective=arguments[0].rpartition("/")[2] if arguments else "",
        tests_version=str(document.get("version", "")),
        nccl_version=_version(document.get("nccl_version")),
        ranks=tuple(_rank(_mapping(device, "devices")) for device in document.get("devices") or []),
        min_bytes=_optional(config, "minimum_bytes"),
        max_bytes=_optional(config, "maximum_bytes"),
        validation=None,
        out_of_bounds=_whole(bounds["count"], "out_of_bounds.count") if "count" in bounds else None,
        out_of_bounds_ok=_truth(bounds["okay"], "out_of_bounds.okay") if "okay" in bounds else None,
        average_gbps=_number(average["bandwidth"], "average") if "bandwidth" in average else None,
        average_ok=_truth(average["okay"], "average.okay") if "okay" in average else None,
        concluded=bool(document.get("end_time")),
    )


def without_environment(text: str) -> str:
    """Return the document without the environment of the run, so that it can be kept.

    Raises:
        InputError: not JSON.
    """
    document = _document(text)
    document.pop("env", None)
    return json.dumps(document, indent=1)


def _document(text: str) -> Json:
    try:
        return _mapping(json.loads(text), "document")
    except (json.JSONDecodeError, RecursionError):
        raise unreadable(f"{TOOL} -J", text[:60], "a JSON document") from None


def _mapping(value: Any, name: str) -> Json:
    if not isinstance(value, dict):
        raise unreadable(f"{TOOL} -J", f"{name}: {value!r}", f"an object for {name}")
    return value


def _row(result: Json) -> Row:
    halves = {name: _half(result[name]) for name in ("out_of_place", "in_place") if result.get(name) is not None}
    if not halves:
        raise unreadable(f"{TOOL} -J", f"size {result.get('size')!r} without figures", "out_of_place or in_place")
    for name in tuple(halves):
        stats = result.get(f"{name}_per_iter")
        if stats is not None:
            halves[name] = _with_processes(halves[name], _mapping(stats, f"{name}_per_iter"))
    root = str(result.get("root", "")).strip()
    return Row(
        size=_whole(result.get("size"), "size"),
        count=_whole(result.get("count"), "count"),
        type=str(result.get("type", "")).strip(),
        redop=str(result.get("redop", "")).strip(),
        root=int(root) if root.removeprefix("-").isdecimal() else None,
        out_of_place=halves.get("out_of_place"),
        in_place=halves.get("in_place"),
    )


def _half(value: Any) -> Half:
    half = _mapping(value, "half")
    wrong = half.get("nwrong")
    unknown = wrong is None or str(wrong).strip() in ("N/A", "-1", "")
    return Half(
        time_us=_number(half.get("time"), "time"),
        algbw_gbps=_number(half.get("alg_bw"), "alg_bw"),
        busbw_gbps=_number(half.get("bus_bw"), "bus_bw"),
        wrong=None if unknown else _whole(wrong, "nwrong"),
    )


def _with_processes(half: Half, stats: Json) -> Half:
    times = stats.get("per_process_max_times_us") or []
    rows = tuple(tuple(_number(value, "per_process_max_times_us") for value in row) for row in times)
    return Half(
        time_us=half.time_us,
        algbw_gbps=half.algbw_gbps,
        busbw_gbps=half.busbw_gbps,
        wrong=half.wrong,
        per_process_us=rows,
    )


def _rank(device: Json) -> RankLine:
    return RankLine(
        rank=_whole(device.get("rank"), "rank"),
        host=str(device.get("hostname", "")),
        device=_whole(device.get("device"), "device"),
        bus=str(device.get("device_hex", "")),
        product=str(device.get("device_info", "")),
    )


def _version(value: Any) -> str:
    """Return `2.28.9` for 22809."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return ""
    return f"{value // 10000}.{value % 10000 // 100}.{value % 100}"


def _truth(value: Any, name: str) -> bool:
    words = {"true": True, "false": False}
    found = words.get(str(value).strip().lower())
    if found is None:
        raise unreadable(f"{TOOL} -J", f"{name}: {value!r}", f"true or false for {name}")
    return found


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise unreadable(f"{TOOL} -J", f"{name}: {value!r}", f"a number for {name}")
    return rate(str(value).strip(), name)


def _whole(value: Any, name: str) -> int:
    number = _number(value, name)
    if number != int(number):
        raise unreadable(f"{TOOL} -J", f"{name}: {value!r}", f"a whole number for {name}")
    return int(number)


def _optional(config: Json, name: str) -> int | None:
    return _whole(config[name], name) if name in config else None
