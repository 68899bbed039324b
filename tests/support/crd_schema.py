# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real schemas of foreign resources, as strict as the API server is with `fieldValidation=Strict`."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any


def crd_schema(shared: Path, name: str, version: str) -> Any:
    """Return the JSON schema of a resource: `name` is `<component>/<plural>.<group>`."""
    import yaml

    path = shared / "crds" / f"{name}.yaml"
    text = path.read_bytes() if path.is_file() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    loader: Any = type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    # A bare `=`, which is a value of some enumerations, has a tag of its own in YAML 1.1.
    loader.add_constructor("tag:yaml.org,2002:value", lambda load, node: load.construct_scalar(node))
    versions = yaml.load(text, Loader=loader)["spec"]["versions"]
    return strict(next(v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == version))


def strict(schema: Any) -> Any:
    """A structural schema that knows int-or-string and refuses unknown fields, as the API server does."""
    if not isinstance(schema, dict):
        return [strict(item) for item in schema] if isinstance(schema, list) else schema
    found = {key: strict(value) for key, value in schema.items()}
    if found.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if isinstance(found.get("pattern"), str) and "(?i)" in found["pattern"]:
        # Go takes a flag anywhere, Python only in front.
        found["pattern"] = "(?i)" + found["pattern"].replace("(?i)", "")
    if (
        isinstance(found.get("properties"), dict)
        and found.get("type") == "object"
        and "metadata" not in found["properties"]
    ):
        found.setdefault("additionalProperties", False)
    return found
