# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""With which Python a host is asked whose newest one does not have the library of dnf."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.modules import node_state_info


@pytest.mark.parametrize(
    ("family", "library", "respawned", "system", "expected"),
    [
        ("redhat", False, False, "/usr/bin/python3", "/usr/bin/python3"),
        ("redhat", True, False, "/usr/bin/python3", ""),
        ("redhat", False, True, "/usr/bin/python3", ""),
        ("redhat", False, False, None, ""),
        ("debian", False, False, "/usr/bin/python3", ""),
    ],
)
def test_dnf_is_asked_with_the_python_that_has_its_library(
    monkeypatch: pytest.MonkeyPatch, family: str, library: bool, respawned: bool, system: str | None, expected: str
) -> None:
    asked: list[tuple[Sequence[str], str]] = []

    def probe(paths: Sequence[str], name: str) -> str | None:
        asked.append((paths, name))
        return system

    found: Any = object() if library else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: found)
    monkeypatch.setattr(node_state_info, "has_respawned", lambda: respawned)
    monkeypatch.setattr(node_state_info, "probe_interpreters_for_module", probe)
    assert node_state_info.python_of_dnf(family) == expected
    assert all(name == "dnf" and "/usr/libexec/platform-python" in paths for paths, name in asked)
