# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""AIPerf's `profile_export_aiperf.json`, schema 1.x, and its transfer in a pod's log, between two marks."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ..outcome.errors import InputError
from .text import unreadable

TOOL = "aiperf"
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_SCHEMA = re.compile(r"1\.\d+")
# Rounding of interpolated percentiles.
_NEAR = 1e-6
# Tolerance of durations that follow from the figures of one run: relative, and in seconds.
_ALIKE, _ALIKE_S = 0.1, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One metric over all good requests, in `unit`."""

    unit: str
    mean: float
    least: float
    most: float
    count: int
    percentiles: Mapping[int, float]

    def at(self, percentile: int) -> float:
        """Return a percentile; one of PERCENTILES."""
        return self.percentiles[percentile]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestError:
    """One kind of failed requests."""

    code: str
    kind: str
    message: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AiperfExport:
    """Results of a run. Times in ms, `duration_s` in s.

    - `ttft`: time to first token.
    - `tpot`: time per output token (AIPerf's inter-token latency).
    - `requests`: number of successful requests.
    - `errors`: number of failed ones.
    - `mismatches`: requests whose length is not the requested one (None: the tool did not count them).
    """

    version: str
    requests: int
    errors: int
    error_rate_percent: float
    error_kinds: tuple[RequestError, ...]
    cancelled: bool
    complete: bool
    output_tokens_per_s: float
    requests_per_s: float
    duration_s: float
    ttft: Distribution
    tpot: Distribution
    latency: Distribution
    input_tokens: Distribution
    output_tokens: Distribution
    mismatches: int | None
    seed: int | None = None
    phases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def parse(text: str) -> AiperfExport:
    """Return the content of an export.

    Raises:
        InputError: it is not an export of schema 1.x, is cut, or contradicts itself.
    """
    data = _root(text)
    requests = _count(data, "request_count")
    errors = _count(data, "error_request_count", missing=0)
    export = AiperfExport(
        version=_text(data, "aiperf_version"),
        requests=requests,
        errors=errors,
        error_rate_percent=_figure(data, "request_error_rate", "%", missing=0.0),
        error_kinds=tuple(_error(entry) for entry in _list(data, "error_summary")),
        cancelled=_flag(data, "was_cancelled"),
        complete=_flag(data, "is_complete"),
        output_tokens_per_s=_figure(data, "output_token_throughput", "tokens/sec"),
        requests_per_s=_figure(data, "request_throughput", "requests/sec"),
        duration_s=_figure(data, "benchmark_duration", "sec"),
        ttft=_distribution(data, "time_to_first_token", "ms"),
        tpot=_distribution(data, "inter_token_latency", "ms"),
        latency=_distribution(data, "request_latency", "ms"),
        input_tokens=_distribution(data, "input_sequence_length", "tokens"),
        output_tokens=_distribution(data, "output_sequence_length", "tokens"),
        mismatches=_count(data, "osl_mismatch_count") if "osl_mismatch_count" in data else None,
        seed=_seed(data),
        phases=_phases(data),
    )
    _refuse_contradictions(export)
    return export


def export_in(log: str, mark: str) -> str | None:
    """Return the export that a pod wrote to its log between its marks; None if there is none.

    Raises:
        InputError: it is incomplete: the end is missing, or length or digest differ from those in the first mark.
    """
    begin = re.search(rf"^{re.escape(mark)} begin (\d+) ([0-9a-f]{{64}})$", log, re.MULTILINE)
    if begin is None:
        return None
    rest = log[begin.end() + 1 :]
    end = re.search(rf"^{re.escape(mark)} end$", rest, re.MULTILINE)
    size = int(begin.group(1))
    body = rest[: max(end.start() - 1, 0)] if end else rest
    found = len(body.encode())
    if end is None or found != size:
        raise unreadable(TOOL, f"{found} of {size} bytes of the export{'' if end else ' and no end'}", "the whole file")
    if hashlib.sha256(body.encode()).hexdigest() != begin.group(2):
        raise unreadable(TOOL, "an export whose digest is not the announced one", "the file as it was written")
    return body


def without_exports(log: str, mark: str) -> str:
    """Return a log without the text between the marks that begin with `mark`, and without an export that has no end."""
    kept, inside = [], False
    for line in log.splitlines():
        if line.startswith(f"{mark}-"):
            inside = " begin " in line
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def _root(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable(TOOL, f"no JSON ({error})", "profile_export_aiperf.json") from None
    if not isinstance(data, dict):
        raise unreadable(TOOL, f"a {type(data).__name__}", "an object")
    version = data.get("schema_version")
    if not isinstance(version, str) or not _SCHEMA.fullmatch(version):
        raise unreadable(TOOL, f"schema_version {version!r}", "an export of schema 1.x")
    return data


def _metric(data: Mapping[str, Any], name: str, unit: str) -> Mapping[str, Any]:
    metric = data.get(name)
    if not isinstance(metric, dict):
        raise unreadable(TOOL, f"no {name}", f"a metric in {unit}")
    if metric.get("unit") != unit:
        raise unreadable(TOOL, f"{name} in {metric.get('unit')!r}", unit)
    return metric


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise unreadable(TOOL, f"{name} is {value!r}", "a number that is not negative")
    return float(value)


def _figure(data: Mapping[str, Any], name: str, unit: str, missing: float | None = None) -> float:
    if name not in data and missing is not None:
        return missing
    return _number(_metric(data, name, unit).get("avg"), name)


def _count(data: Mapping[str, Any], name: str, missing: int | None = None) -> int:
    value = _figure(data, name, "requests", missing)
    if value != int(value):
        raise unreadable(TOOL, f"{name} is {value!r}", "a whole number")
    return int(value)


def _distribution(data: Mapping[str, Any], name: str, unit: str) -> Distribution:
    metric = _metric(data, name, unit)
    figures = {key: _number(metric.get(key), f"{name}.{key}") for key in ("avg", "min", "max", "count")}
    percentiles = {p: _number(metric.get(f"p{p}"), f"{name}.p{p}") for p in PERCENTILES}
    rising = [figures["min"], *percentiles.values(), figures["max"]]
    if any(left > right + _NEAR * max(1.0, right) for left, right in pairwise(rising)):
        raise unreadable(TOOL, f"{name} with percentiles that fall", "percentiles that rise")
    if not figures["min"] * (1 - _NEAR) <= figures["avg"] <= figures["max"] * (1 + _NEAR):
        raise unreadable(TOOL, f"{name} with a mean outside of its values", "a mean between least and most")
    if figures["count"] < 1 or figures["count"] != int(figures["count"]):
        raise unreadable(TOOL, f"{name} of {figures['count']:g} requests", "at least one")
    return Distribution(
        unit=unit, mean=figures["avg"], least=figures["min"], most=figures["max"], count=int(figures["count"]),
        percentiles=percentiles,
    )  # fmt: skip


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name)
    if not isinstance(value, bool):
        raise unreadable(TOOL, f"{name} is {value!r}", "true or false")
    return value


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value:
        raise unreadable(TOOL, f"{name} is {value!r}", "a text")
    return value


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    if not isinstance(value, list):
        raise unreadable(TOOL, f"{name} is {type(value).__name__}", "a list")
    return value


def _error(entry: Any) -> RequestError:
    details = entry.get("error_details") if isinstance(entry, dict) else None
    if not isinstance(details, dict):
        raise unreadable(TOOL, f"an error summary {entry!r}"[:200], "error_details and count")
    return RequestError(
        code=str(details.get("code") or ""),
        kind=str(details.get("type") or ""),
        message=str(details.get("message") or ""),
        count=int(_number(entry.get("count"), "error_summary.count")),
    )


def _seed(data: Mapping[str, Any]) -> int | None:
    info = data.get("run_info")
    seed = info.get("random_seed") if isinstance(info, dict) else None
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None


# Required settings by phase. Of the warmup only the number of requests is needed.
_PHASES = {"warmup": ("requests",), "profiling": ("requests", "concurrency")}


def _phases(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    config = data.get("input_config")
    phases = config.get("phases") if isinstance(config, dict) else None
    if not isinstance(phases, list):
        raise unreadable(TOOL, "no input_config.phases", "how the load was made")
    kinds = {str(phase.get("kind")): phase for phase in phases if isinstance(phase, dict)}
    return {
        kind: {name: value for name, value in phase.items() if name in _PHASES[kind]}
        for kind, phase in kinds.items()
        if kind in _PHASES
    }


def _refuse_contradictions(export: AiperfExport) -> None:
    counted = sum(kind.count for kind in export.error_kinds)
    if counted != export.errors:
        raise unreadable(TOOL, f"{export.errors} errors and a summary of {counted}", "the same number")
    if (export.errors == 0) != (export.error_rate_percent == 0):
        raise unreadable(TOOL, f"{export.errors} errors at a rate of {export.error_rate_percent:g} %", "both or none")
    for name in ("ttft", "tpot", "latency", "input_tokens", "output_tokens"):
        found: Distribution = getattr(export, name)
        # A response of one token has no time between tokens.
        if found.count != export.requests and (name != "tpot" or export.output_tokens.least > 1):
            raise unreadable(TOOL, f"{name} of {found.count} of {export.requests} requests", "one each")
    if not export.output_tokens_per_s or not export.duration_s:
        raise unreadable(TOOL, "no output in no time", "a run that took some time")
    # AIPerf divides requests and tokens by the duration (aiperf/metrics/types). Without warmup requests AIPerf was
    # observed to count some hundredths of a second more than it reports.
    for name, rate, amount in (
        ("request_throughput", export.requests_per_s, float(export.requests)),
        ("output_token_throughput", export.output_tokens_per_s, export.output_tokens.mean * export.requests),
    ):
        if not rate or abs(amount / rate - export.duration_s) > _ALIKE * export.duration_s + _ALIKE_S:
            text = f"{name} {rate:g} in {export.duration_s:g} s, {amount:g} in all"
            raise unreadable(TOOL, text, "figures that fit each other")


def redacted(text: str, redact: Any) -> str:
    """Return an export with the same figures, its texts passed through `redact`, without keys and headers.

    Raises:
        InputError: it is not JSON.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(TOOL, f"no JSON ({error}).") from None
    return json.dumps(_clean(data, redact), indent=1) + "\n"


def _clean(value: Any, redact: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(inner, redact) for key, inner in value.items() if key not in ("api_key", "headers")}
    if isinstance(value, list):
        return [_clean(inner, redact) for inner in value]
    return redact(value) if isinstance(value, str) else value
