# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Against which real chart the values of a component were held last: recipes/components/<name>/proven.yaml."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.chart_version import same_chart_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import decode, read_yaml
from tools.chart_files import files_of

FILE = "proven.yaml"
_HEAD = """\
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Written by make chart-values: the real chart against which our values were held last, with nothing to say.
---
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The version of the chart, the digest over its files, the day, and for which Kubernetes it was rendered."""

    version: str
    digest: str
    date: str
    kubernetes: str


def digest_of(chart: Path) -> str:
    """Return a digest over the files of a chart, the same for a directory and the archive of it."""
    digest = hashlib.sha256()
    for name, data in sorted(files_of(chart).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return f"sha256:{digest.hexdigest()}"


def record(recipes: Path, component: str, chart: Path, version: str, kubernetes: str) -> Path:
    """Write down that a component was held against a chart today, and return the file."""
    path = recipes / "components" / component / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    day = datetime.now(UTC).date().isoformat()
    facts = {"version": version, "digest": digest_of(chart), "date": day, "kubernetes": kubernetes}
    text = "".join(f'{key}: "{value}"\n' for key, value in facts.items())
    path.write_text(_HEAD + text, encoding="utf-8")
    return path


def notes(recipes: Path, catalogue: Catalogue) -> Iterator[str]:
    """Yield which charts were never held against the real one, and which against another version than the pinned."""
    never, other = [], []
    for name, version in _charts(catalogue).items():
        path = recipes / "components" / name / FILE
        try:
            proven = decode(Proven, read_yaml(path), str(path)) if path.is_file() else None
        except BringupError as error:
            yield str(error)
            continue
        if proven is None:
            never.append(name)
        elif not same_chart_version(proven.version, version):
            other.append(f"{name} (pinned {version}, held against {proven.version} on {proven.date})")
    if never:
        yield f"{len(never)} charts have no record of being held against the real one: {', '.join(never)}"
    if other:
        yield f"held against another version than the pinned one: {', '.join(other)}"


def _charts(catalogue: Catalogue) -> Mapping[str, str]:
    versions = {name: entry.default("helm", "defaultVersion") for name, entry in catalogue.registry.items()}
    return {name: version for name, version in versions.items() if version}
