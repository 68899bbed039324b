# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One manifest file with template expressions, rendered by Helm itself: a chart is put around it and thrown away.

So a function means what Helm means by it, and one that Helm does not know is an error with the file's line.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from ...outcome.errors import InputError
from ...runtime.memory_file import memory_file
from ..kube.connection import Connection
from .chart import ChartSource
from .helm import Helm, HelmError, ReleaseRequest

_FILE = "manifest.yaml"
_VERSION = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_PLACE = re.compile(rf"[^ (]*templates/{re.escape(_FILE)}:(\d+)(?::\d+)?\)?")
_WHOLE = re.compile(rf"[^ (]*templates/{re.escape(_FILE)}")
_SOURCE = re.compile(r"^# Source: .*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Templated:
    """A file and what its expressions see: `.Chart` and `.Release` of its component, and the values.

    `.Values` are the component's own and, below the component's name, the same again, as upstream's manifests have it.
    """

    file: str
    text: str
    component: str
    namespace: str
    version: str
    values: Mapping[str, Any]


def render(templated: Templated, binary: str = "helm") -> str:
    """Return the plain manifests of a file; no cluster is asked.

    Raises:
        InputError: an unknown function, a missing value, or something else that Helm refuses, with file and line.
        NotFoundError: helm is not installed.
        DeadlineError: helm took too long.
    """
    version = templated.version if _VERSION.fullmatch(templated.version) else "0.0.0"
    about = json.dumps({"apiVersion": "v2", "name": templated.component, "version": version})
    files = {"Chart.yaml": about, f"templates/{_FILE}": templated.text}
    with memory_file(_archive(templated.component, files)) as path:
        request = ReleaseRequest(
            name=templated.component,
            namespace=templated.namespace,
            chart=ChartSource(path, (), templated.file),
            values={**templated.values, templated.component: dict(templated.values)},
        )
        try:
            text = Helm(Connection(), binary=binary, timeout_s=60.0).template(request)
        except HelmError as error:
            raise _problem(templated, error.reason) from None
    return _SOURCE.sub("", text)


def _archive(name: str, files: Mapping[str, str]) -> bytes:
    """Return the packed chart of these files."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for place, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"{name}/{place}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return packed.getvalue()


def _problem(templated: Templated, said: str) -> InputError:
    place = _PLACE.search(said)
    line = f":{place[1]}" if place else ""
    said = re.sub(r"^Error: ", "", said)
    said = _WHOLE.sub(templated.file, _PLACE.sub("here", said))
    hint = "correct the file, or put a plain one at the same path into a private recipe directory"
    return InputError(f"{templated.file}{line}", f"helm cannot render it: {said[:400]}", hint)
