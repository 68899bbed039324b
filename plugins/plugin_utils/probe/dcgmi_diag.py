# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `dcgmi diag -r N -j`, schemas of DCGM 3 and 4."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .text import document, unreadable

TOOL = "dcgmi diag -j"
_ROOTS = {"DCGM GPU Diagnostic": "3", "DCGM Diagnostic": "4"}
_STATUS = {"pass": "pass", "fail": "fail", "warn": "warn", "warning": "warn", "skip": "skip", "not run": "not run"}


@dataclass(frozen=True, slots=True)
class DiagWarning:
    """One message; the numbers are DCGM's and 0 where the schema has none. Severity 2 isolate, 5 config, 6 reset."""

    text: str
    error_id: int = 0
    category: int = 0
    severity: int = 0


@dataclass(frozen=True, slots=True)
class DiagResult:
    """One result: status pass, fail, warn, skip or `not run`; `gpus` are DCGM's ids, empty for the whole node."""

    status: str
    gpus: tuple[int, ...] = ()
    warnings: tuple[DiagWarning, ...] = ()
    info: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiagTest:
    """One test with its results."""

    category: str
    name: str
    results: tuple[DiagResult, ...]

    @property
    def key(self) -> str:
        """The name as both majors share it: `GPU Memory` is `memory`, `Targeted Stress` is `targeted_stress`."""
        return self.name.lower().replace("gpu ", "").replace(" ", "_")

    @property
    def gpus(self) -> frozenset[int]:
        """The GPUs that have a result of their own."""
        return frozenset(number for result in self.results for number in result.gpus)


@dataclass(frozen=True, slots=True)
class DiagReport:
    """The whole report. With `runtime_error` the diagnostic did not run and there are no tests.

    `serials` gives the serial of the board behind each of DCGM's GPU ids, as (id, serial).
    """

    schema: str
    version: str
    driver: str
    tests: tuple[DiagTest, ...] = ()
    runtime_error: str = ""
    serials: tuple[tuple[int, str], ...] = ()


def parse(text: str) -> DiagReport:
    """Return the report; text before the first brace is ignored.

    Raises:
        InputError: no JSON object, another schema, no test, or a status that nobody knows.
    """
    root = _document(document(text))
    name = next((key for key in _ROOTS if key in root), None)
    if name is None:
        raise unreadable(TOOL, f"keys {', '.join(root)}", f"a key {' or '.join(_ROOTS)}")
    body = _object(root[name], name)
    schema = _ROOTS[name]
    meta = {
        **root,
        **_object(root.get("metadata", {}), "metadata"),
        **_object(body.get("metadata", {}), "metadata"),
    }
    version = str(meta.get("DCGM Version") or meta.get("version") or body.get("version") or "")
    driver = str(meta.get("Driver Version Detected") or body.get("Driver Version Detected") or "")
    if "runtime_error" in body:
        return DiagReport(schema, version, driver, runtime_error=str(body["runtime_error"]) or "no reason given")
    categories = [_object(entry, "category") for entry in _list(body.get("test_categories"), "test_categories")]
    tests = tuple(
        _test(str(category.get("category", "")), test)
        for category in categories
        for test in _list(category.get("tests"), "tests")
    )
    if not tests:
        raise unreadable(TOOL, "no test", "at least one test in test_categories")
    return DiagReport(schema, version, driver, tests, serials=_serials(body, root))


def _serials(body: dict[str, Any], root: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    """Return the serials; they only help to name a GPU, so an odd list is no reason to refuse the report.

    DCGM 4 prints the list of entities beside "DCGM Diagnostic", at the root of the document.
    """
    old = body.get("GPU Device Serials")
    pairs = list(old.items()) if isinstance(old, dict) else []
    lists = [found for found in (body.get("entity_groups"), root.get("entity_groups")) if isinstance(found, list)]
    for group in (entry for groups in lists for entry in groups):
        if isinstance(group, dict) and group.get("entity_group") == "GPU" and isinstance(group.get("entities"), list):
            pairs += [(e.get("entity_id"), e.get("serial_num")) for e in group["entities"] if isinstance(e, dict)]
    return tuple((int(str(key)), str(serial)) for key, serial in pairs if str(key).isascii() and str(key).isdigit())


def _document(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        raise unreadable(TOOL, text[:80], "a JSON object")
    try:
        found, _end = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        raise unreadable(TOOL, f"{text[start : start + 60]} ({error})", "a whole JSON object") from None
    return _object(found, "the document")


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unreadable(TOOL, f"{name} is a {type(value).__name__}", "an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise unreadable(TOOL, f"{name} is a {type(value).__name__}", "a list")
    return value


def _test(category: str, value: Any) -> DiagTest:
    test = _object(value, "test")
    name = test.get("name")
    if not isinstance(name, str) or not name:
        raise unreadable(TOOL, "a test without a name", "a name")
    results = tuple(_result(entry) for entry in _list(test.get("results", []), f"results of {name}"))
    if "test_summary" in test:
        summary = _result(test["test_summary"])
        # The summary says fail for reasons that no single GPU has, too, and has messages of its own.
        reported = {warning for result in results for warning in result.warnings}
        messages = {line for result in results for line in result.info}
        if (
            summary.status not in {result.status for result in results}
            or set(summary.warnings) - reported
            or set(summary.info) - messages
        ):
            results += (summary,)
    if not results:
        raise unreadable(TOOL, f"no result of {name}", "at least one result")
    return DiagTest(category, name, results)


def _result(value: Any) -> DiagResult:
    entry = _object(value, "result")
    status = _STATUS.get(str(entry.get("status", "")).strip().lower())
    if status is None:
        raise unreadable(TOOL, f"status {entry.get('status')!r}", "Pass, Fail, Warn, Skip or Not Run")
    return DiagResult(status, _gpus(entry), _warnings(entry.get("warnings", [])), _info(entry.get("info", [])))


def _gpus(entry: dict[str, Any]) -> tuple[int, ...]:
    if "entity_id" in entry:
        ids = str(entry["entity_id"]) if entry.get("entity_group", "GPU") == "GPU" else ""
    else:
        ids = str(entry.get("gpu_ids", entry.get("gpu_id", "")))
    try:
        return tuple(int(part) for part in ids.split(",") if part.strip())
    except ValueError:
        raise unreadable(TOOL, f"GPU ids {ids!r}", "numbers") from None


def _warnings(value: Any) -> tuple[DiagWarning, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(_warning(entry) for entry in entries)


def _warning(entry: Any) -> DiagWarning:
    if not isinstance(entry, dict):
        return DiagWarning(str(entry))
    numbers = []
    for name in ("error_id", "error_category", "error_severity"):
        value = entry.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise unreadable(TOOL, f"{name} {value!r}", "a whole number")
        numbers.append(value)
    return DiagWarning(str(entry.get("warning", "")), *numbers)


def _info(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(", ") if part.strip())
    return tuple(str(part) for part in value) if isinstance(value, list) else ()
