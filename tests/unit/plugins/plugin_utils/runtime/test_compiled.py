# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the core is loaded: from compiled files in programs of Ansible, and as ever without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.compiled import (
    PROGRAMS,
    CompiledFinder,
    import_compiled,
)

CORE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
ROOT = Path(__file__).resolve().parents[5]
SOURCES = [
    Path("plugins/plugin_utils") / name for name in ("__init__.py", "runtime/__init__.py", "runtime/compiled.py")
]

UNDER_ANSIBLE = """
import importlib, json, sys
import ansible.cli
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
_AnsibleCollectionFinder([sys.argv[1]])._install()
exec(sys.argv[2])
print(json.dumps({name: [type(module.__spec__.loader).__name__, module.__spec__.cached, module.__file__]
                  for name, module in sys.modules.items() if name.startswith("ansible_collections.")}))
"""


def loaded(home: Path, cache: Path | None, line: str) -> dict[str, tuple[str, str | None, str]]:
    """Run a line under Ansible's loader; return loader, compiled file and source of what is loaded of collections."""
    left_out = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    environment |= {"PYTHONPYCACHEPREFIX": str(cache)} if cache else {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", UNDER_ANSIBLE, str(home), line],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name: (loader, cached, source) for name, (loader, cached, source) in json.loads(done.stdout).items()}


def test_the_checks_of_a_run_are_loaded_from_compiled_files(tmp_path: Path) -> None:
    found = loaded(ROOT / ".cache", tmp_path, f"from {CORE}.run.preload import preload; preload()")
    checks = {name: facts for name, facts in found.items() if name.startswith(f"{CORE}.check.")}
    assert len(checks) > 250
    for loader, cached, _source in checks.values():
        assert loader == "SourceFileLoader"
        assert cached and Path(cached).is_file() and Path(cached).is_relative_to(tmp_path)
    # What stands above the core is Ansible's to load: there it looks for redirects.
    assert found[CORE][0] == found[CORE.rpartition(".")[0]][0] == "_AnsibleCollectionLoader"


def test_a_change_of_a_module_is_seen_and_a_tree_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    home = tmp_path / "ansible_collections" / "gpufleet" / "bringup"
    package = home / "plugins" / "plugin_utils"
    (package / "runtime").mkdir(parents=True)
    (home / "galaxy.yml").write_text("namespace: gpufleet\nname: bringup\nversion: 1.0.0\n", encoding="utf-8")
    for source in SOURCES:
        (home / source).write_text((ROOT / source).read_text(encoding="utf-8"), encoding="utf-8")
    (package / "inner").mkdir()
    (package / "inner" / "__init__.py").touch()
    module = package / "inner" / "told.py"
    line = f"import {CORE}.inner.told"
    for length in (1, 2):
        module.write_text(f"raise SystemExit({'7' * length})\n", encoding="utf-8")
        with pytest.raises(subprocess.CalledProcessError) as refused:
            loaded(tmp_path, tmp_path / "cache", line)
        assert refused.value.returncode == int("7" * length)
    module.write_text("", encoding="utf-8")
    loader, _cached, source = loaded(tmp_path, None, line)[f"{CORE}.inner.told"]
    assert (loader, source) == ("SourceFileLoader", str(module))
    assert not list(home.rglob("*.pyc"))


def test_the_finder_comes_once_and_in_programs_of_ansible_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", list(before))
    monkeypatch.delitem(sys.modules, PROGRAMS, raising=False)
    import_compiled("one.core")
    assert sys.meta_path == before
    monkeypatch.setitem(sys.modules, PROGRAMS, sys)
    for _twice in range(2):
        import_compiled("one.core")
    assert sys.meta_path[1:] == before and isinstance(sys.meta_path[0], CompiledFinder)


def test_a_module_of_someone_else_is_left_to_who_comes_next(tmp_path: Path) -> None:
    (tmp_path / "told.py").touch()
    finder = CompiledFinder("one.core")
    assert finder.find_spec("another.told", [str(tmp_path)]) is None
    assert finder.find_spec("one.core.absent", [str(tmp_path)]) is None
    assert finder.find_spec("one.core.told") is None
    spec = finder.find_spec("one.core.told", [str(tmp_path)])
    assert spec is not None and spec.origin == str(tmp_path / "told.py")
