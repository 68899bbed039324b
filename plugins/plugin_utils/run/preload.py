# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every gate imports, imported once: Ansible forks a worker for each task, and a worker inherits loaded
modules."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

# What functions of the core import: our own pages and plots, and third-party packages, which may be missing.
_CORE = __package__.rpartition(".")[0]
_OURS = (f"{_CORE}.check.comparison.specs", f"{_CORE}.component_stack.render", f"{_CORE}.report.run_report")
_PACKAGES = ("jinja2", "jmespath", "junitparser", "sqlalchemy.dialects.sqlite", "yaml")


def preload() -> None:
    """Import the checks of all gates and the libraries that gates use, and prepare reading and writing of values.

    Call it in the main process. Without it every task of a gate would import them again, 0.6 s each. A missing package
    is reported by preflight, not here.
    """
    from ..check.registry import all_checks
    from ..hardware.sku import Sku
    from ..outcome.codec import prepare
    from ..outcome.model import Outcome
    from ..site.model import Site
    from ..store.tables import tables
    from ..verdict.run import RunRecord

    all_checks()
    for name in _OURS:
        import_module(name)
    for name in _PACKAGES:
        with suppress(ImportError):
            import_module(name)
    with suppress(ImportError):
        tables()
    with suppress(ImportError):
        prepare(Outcome, RunRecord, Site, Sku)
