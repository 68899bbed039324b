# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated hosts of somebody who is not root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import rmtree, which
from tempfile import mkdtemp

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes

ROOT = Path(__file__).resolve().parents[2]
REMOVE = (
    "from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import remove_hosts; remove_hosts"
)
ENCLOSURE = "rehearsal/plugins/plugin_utils/hosts/enclosure.py"


def test_a_plain_user_gets_hosts_of_his_own(tmp_path: Path, marker: str) -> None:
    """Run as `nobody` with the system's Python, which such a user can read."""
    python, drop = Path("/usr/bin/python3"), which("setpriv")
    if drop is None or os.geteuid() != 0 or not python.exists():
        pytest.skip("needs setpriv, root to become somebody else, and a system-wide Python")
    root = Path(mkdtemp(prefix="gpufleet-user-"))
    try:
        spec = ModelSpec(name="of-a-user", seed=1, nodes=numbered_nodes(1, "h100"))
        model = build_model(spec, load_hardware([ROOT / "recipes" / "hardware"]))
        prepare_hosts(model, root, ROOT / "rehearsal" / "recipes")
        (root / "enclosure.py").write_bytes((ROOT / ENCLOSURE).read_bytes())
        for path in (root, *root.rglob("*")):
            os.chown(path, 65534, 65534)
        command = f"echo x > /etc/{marker}; cat /etc/{marker}; id -u; nvidia-smi -L | wc -l; ls -A {root}"
        code = (
            f"import os, sys; sys.path.insert(0, {str(root)!r}); import enclosure; "
            f"sys.exit(enclosure.main([{str(root)!r}, 'gpu01', str(os.getppid()), {command!r}]))"
        )
        argv = [drop, "--reuid", "65534", "--regid", "65534", "--clear-groups", str(python), "-I", "-c", code]
        result = subprocess.run(argv, capture_output=True, text=True, cwd="/", check=False)
        if "making namespaces" in result.stderr:
            pytest.skip(f"users may not make namespaces here: {result.stderr.strip()}")
        assert (result.returncode, result.stdout) == (0, "x\n0\n8\n"), result.stderr
        # What the kernel leaves in the work areas may not keep him from removing it.
        remove = f"import sys; sys.path[:0] = {[str(ROOT / '.cache')]!r}; from pathlib import Path; {REMOVE}"
        result = subprocess.run(
            [*argv[:-1], remove + f"(Path({str(root)!r}))"], capture_output=True, text=True, cwd="/", check=False
        )
        if "ModuleNotFoundError" not in result.stderr:  # a checkout that only its owner can read
            assert not (root / "hosts").exists(), result.stderr
    finally:
        rmtree(root)
