# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An ansible-playbook takes the core as Python compiled it before; Ansible's own loader compiles it in each process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
import ansible.cli
from ansible.plugins.loader import action_loader, init_plugin_loader
init_plugin_loader()
action = action_loader.get("gpufleet.bringup.preflight_call", class_only=True)
assert action is not None
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome import errors
from ansible_collections.gpufleet.bringup import plugins
import pathlib
assert type(plugins.__loader__).__module__.startswith("ansible.")
print(type(errors.__loader__).__name__, pathlib.Path(errors.__cached__).is_file())
"""


@pytest.mark.parametrize("read_only", [False, True])
def test_the_core_is_compiled_once(tmp_path: Path, repository: Path, read_only: bool) -> None:
    environment = os.environ | {
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"),
        "PYTHONDONTWRITEBYTECODE": "1" if read_only else "",
    }  # fmt: skip
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, "-c", LOAD], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["SourceFileLoader", str(not read_only)]
