# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the import of the core takes in a fresh process, against the budget.

    .cache/venv/bin/python bench/imports.py

A process imports what its module needs: what `plugins/action/<module>.py` names of plugins/plugin_utils (Ansible's own
imports are left out), and of the checks those of one gate, with what its decision imports late in any case. What only
some uses of a module import is not in the figure (docs/design/report-and-imports.md), and neither are
third-party packages, which are imported inside functions. Compiled files are used, as in production. A figure is the
least CPU time of several fresh processes: most of what others do on the machine is not in it. The numbers of modules
and dataclasses are exact. The whole core is shown as well; only the main process of a run imports all of it, once.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parent.parent
CORE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
LEFT_OUT = ("action_base",)
# What a decision imports late, by gate: these compare hosts with each other and with what was accepted.
_COMPARING = ("fabric_validation", "training_acceptance", "inference_acceptance")
_LATE = (f"{CORE}.check.comparison.specs", f"{CORE}.collect.host_facts")
BUDGET_MS = 150.0
RUNS = 10
_THIRD_PARTY = {"yaml", "kubernetes", "cattrs", "sqlalchemy", "jinja2", "jsonschema", "junitparser"}


def needed_by(module: str) -> list[str]:
    """Return what the action plugin of that name imports from the core, without the rooms that need Ansible."""
    tree = ast.parse((ROOT / "plugins" / "action" / f"{module}.py").read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return [name for name in names if name.startswith(f"{CORE}.") and name.split(".")[5] not in LEFT_OUT]


def whole() -> list[str]:
    """Return the name of every module of the core."""
    base = ROOT / "plugins" / "plugin_utils"
    found = [path.relative_to(base).with_suffix("") for path in sorted(base.rglob("*.py"))]
    return [".".join((CORE, *path.parts)) for path in found if path.parts[0] not in LEFT_OUT]


def cases() -> dict[str, list[str]]:
    """Return what is measured: a label and the modules."""
    modules = sorted(path.stem for path in (ROOT / "plugins" / "action").glob("*.py"))
    found = {f"module {name}": needed for name in modules if (needed := needed_by(name))}
    base = ROOT / "plugins" / "plugin_utils" / "check"
    for directory in sorted(path for path in base.iterdir() if (path / "__init__.py").is_file()):
        checks = [f"{CORE}.check.{directory.name}.{path.stem}" for path in sorted(directory.glob("[a-z]*.py"))]
        if any("SPEC = " in path.read_text(encoding="utf-8") for path in directory.glob("*.py")):
            late = _LATE if directory.name in _COMPARING else ()
            found[f"gate {directory.name}"] = [f"{CORE}.run.decision", *checks, *late]
    return found | {"the whole core": whole()}


def measure(names: list[str]) -> None:
    """Import those modules in this process and print the CPU time."""
    from importlib import import_module

    begun = process_time()
    for name in names:
        import_module(name)
    ms = (process_time() - begun) * 1000
    core = {name: module for name, module in sys.modules.items() if name.startswith(CORE)}
    made = sum(
        isinstance(value, type) and value.__module__ == name and "__dataclass_fields__" in vars(value)
        for name, module in core.items()
        for value in vars(module).values()
    )
    third_party = sorted(_THIRD_PARTY & set(sys.modules))
    print(json.dumps({"ms": ms, "modules": len(core), "dataclasses": made, "third_party": third_party}))


def _run(names: list[str], environment: dict[str, str]) -> dict[str, object]:
    command = [sys.executable, __file__, "--measure", *names]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> int:
    """Print the figures beside the budget; 1 if a module or a gate is over it."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as cache:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT / ".cache"), "PYTHONPYCACHEPREFIX": cache}
        # The first one writes the compiled files.
        _run(whole(), environment)
        print(f"import in a fresh process, CPU time, least of {RUNS}; budget {BUDGET_MS:g} ms")
        for label, names in cases().items():
            runs = [_run(names, environment) for _number in range(RUNS)]
            best = min(runs, key=lambda run: float(str(run["ms"])))
            ms = float(str(best["ms"]))
            over = ms > BUDGET_MS and label != "the whole core"
            third_party = f"   third-party packages: {best['third_party']}" if best["third_party"] else ""
            counts = f"{best['modules']:>5} modules{best['dataclasses']:>5} dataclasses"
            print(f"  {label:30}{ms:8.1f} ms{counts}{'   OVER' if over else ''}{third_party}")
            wrong |= over or bool(best["third_party"])
    return int(wrong)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2:])
    else:
        sys.exit(main())
