# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command versions: what is pinned, how old the information about it is, and whether it supports a Kubernetes
version."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from ..component_stack.pins import chart_pins, image_pins, recipe_pins, value_pins
from ..component_stack.versions import Record, Support, Versions, apart, recorded_versions, supported_on
from ..outcome.errors import NotFoundError
from ..recipe.request import Request, catalogue_of
from .answer import formatted, warn, write, write_lines
from .questions import answered, kept_in, request_for

_NOT_MET = 8


def versions(arguments: Namespace) -> int:
    """Print the pins of the release, or of the requested recipe.

    With --exit-code it ends with 8 if one of them does not support the version of Kubernetes.
    """
    request = request_for(arguments)
    kubernetes = kubernetes_asked(arguments, request)
    recorded = recorded_versions(request.recipe_data)
    pins, constraints = _pins(arguments, request, kubernetes)
    rows = [_row(name, version, recorded.components.get(name), kubernetes) for name, version in pins.items()]
    whole = not (arguments.component or request.criteria or request.facts)
    others = _others(recorded) if whole else {}
    if arguments.component:
        rows = [row for row in rows if row["name"] == arguments.component]
        if not rows:
            from ..recipe.nearest import unknown_hint

            hint = unknown_hint(arguments.component, list(pins))
            raise NotFoundError(f"component {arguments.component}", "is not among what is pinned.", hint)
    warn(_apart(arguments.component, {**pins, **others}, recorded))
    if arguments.format in (None, "text"):
        write_lines(_lines(rows, kubernetes, recorded, whole, constraints))
    else:
        data: dict[str, Any] = {"kubernetes": kubernetes, "components": rows, "constraints": constraints}
        data |= {"images": _image_rows(recorded), "values": _value_rows(recorded)} if whole else {}
        write(formatted(data, arguments.format))
    failed = any(row.get("support") == Support.NOT_MET for row in (*rows, *constraints))
    return _NOT_MET if arguments.exit_code and failed else 0


def kubernetes_asked(arguments: Namespace, request: Request) -> str:
    """Return the requested version of Kubernetes, empty if there is none.

    Raises:
        InputError: it is no version.
    """
    from ..constraint.evaluate import parse_version

    configured = arguments.kubernetes or (request.facts.server_version if request.facts else "")
    if configured:
        parse_version(configured)
    return str(configured)


def _pins(arguments: Namespace, request: Request, kubernetes: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return the requested pins, and the constraints of the recipe on Kubernetes."""
    if not (request.criteria or request.facts):
        catalogue = catalogue_of(request.recipe_data, kept_in(arguments))
        warn(catalogue.warnings)
        return chart_pins(catalogue), []
    from ..constraint.declared import SERVER_VERSION
    from ..recipe.measured import evaluate_on

    result = answered(request).result
    demanded = [each for each in result.constraints if each.name == SERVER_VERSION]
    return recipe_pins(result), [
        {"name": each.name, "value": each.value, **_judged(evaluate_on(each, kubernetes or None, None).status.value)}
        for each in demanded
    ]


def _judged(status: str) -> dict[str, str]:
    known = {"pass": Support.MET, "fail": Support.NOT_MET}
    return {"support": known.get(status, Support.UNKNOWN).value}


def _row(name: str, version: str, record: Record | None, kubernetes: str) -> dict[str, Any]:
    """Return what is known about a pin; the record counts only for the version that it was read for."""
    row: dict[str, Any] = {"name": name, "version": version}
    if record is not None and record.is_of(version):
        row |= _read(record.checked, record.source)
        row |= {"released": record.released} if record.released else {}
        if ends := record.kubernetes:
            row["kubernetes"] = {"oldest": ends.oldest, "newest": ends.newest, "source": ends.source}
    if kubernetes:
        support, why = supported_on(record, version, kubernetes)
        row |= {"support": support.value, "reason": why}
    return row


def _read(checked: str, source: str) -> dict[str, Any]:
    age = datetime.now(UTC).date() - date.fromisoformat(checked)
    return {"checked": checked, "checked_days_ago": max(age.days, 0), "source": source}


def _others(recorded: Versions) -> dict[str, str]:
    """Return the pins beside charts, by their names; an image with several tags has no single version."""
    tags: dict[str, set[str]] = {}
    for image in image_pins():
        tags.setdefault(image.name, set()).add(image.tag)
    single = {name: next(iter(found)) for name, found in tags.items() if len(found) == 1}
    return single | value_pins(recorded.values)


def _apart(component: str | None, pins: Mapping[str, str], recorded: Versions) -> Iterable[str]:
    pairs = [pair for pair in recorded.pairs if component in (None, *pair.pins)]
    return [text for pair in pairs if (text := apart(pair, pins, recorded))]


def _image_rows(recorded: Versions) -> list[dict[str, Any]]:
    found = {(image.name, image.tag): image for image in image_pins()}
    return [{"name": name, "version": tag, **_image_read(name, tag, recorded)} for name, tag in sorted(found)]


def _image_read(name: str, tag: str, recorded: Versions) -> dict[str, Any]:
    record = recorded.images.get(name)
    return _read(record.checked, record.source) if record is not None and tag in record.of else {}


def _value_rows(recorded: Versions) -> list[dict[str, Any]]:
    return [_row(name, version, recorded.values[name], "") for name, version in value_pins(recorded.values).items()]


def _lines(
    rows: list[dict[str, Any]],
    kubernetes: str,
    recorded: Versions,
    whole: bool,
    constraints: list[dict[str, Any]],
) -> list[str]:
    head = ["component", "version", "read", "released", "for Kubernetes", *([kubernetes] if kubernetes else [])]
    table = [head]
    for row in rows:
        ends = recorded.components[row["name"]].kubernetes if "kubernetes" in row else None
        verdict = [_verdict(row)] if kubernetes else []
        table.append([*_cells(row), row.get("released", "-"), str(ends or "-"), *verdict])
    lines = _aligned(table)
    for row in constraints:
        reported = f": {row['support']}" if kubernetes else ""
        lines.append(f"the recipe demands {row['name']} {row['value']}{reported}")
    if not whole:
        return lines
    for what, found in (("image", _image_rows(recorded)), ("value", _value_rows(recorded))):
        lines += ["", *_aligned([[what, "version", "read"], *(_cells(row) for row in found)])]
    return lines


def _cells(row: Mapping[str, Any]) -> list[str]:
    days = row.get("checked_days_ago")
    read = "never" if days is None else f"{days} days ago" if days > 1 else ("today", "yesterday")[days]
    return [row["name"], row["version"], read]


def _verdict(row: Mapping[str, Any]) -> str:
    return str(row["support"]) if "kubernetes" in row else f"{row['support']}: {row['reason']}"


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
