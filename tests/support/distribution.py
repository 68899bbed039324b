# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which worker runs which test: a file whose tests share a fixture, a cluster for instance, stays on one worker, and
so does a directory whose files share one.

xdist's own groups (`--dist loadgroup`) come to nothing with pytest 9.2: it no longer takes over the changed node ids.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_SHARED = 'scope="module"'
_OF_FILES = 'scope="package"'


class BySharedFixture(LoadScopeScheduling):
    """What shares a fixture first, that of most tests before others; then test by test, in order."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        directory = file.rpartition("/")[0]
        if _has(Path(self.config.rootpath / directory / "conftest.py"), _OF_FILES):
            return directory
        return file if _has(Path(self.config.rootpath / file), _SHARED) else nodeid

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what is done: after each test all that a worker ever had would be looked through twice."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]

    def _reschedule(self, node: WorkerController) -> None:
        """Give work to a worker that has collected: xdist ends with KeyError where a worker goes while the one that
        replaces another is still collecting. That one is given work when its collection is there."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Give what a worker that went left undone to others, but the test that it was running: xdist would run that
        again on each worker, and wait for ever where the others have ended."""
        work = self.assigned_work[node]
        crashed = next((test for unit in work.values() for test, done in unit.items() if not done), None)
        if crashed is not None:
            for unit in work.values():
                unit.update({test: True for test in unit if test == crashed})
            for scope in [scope for scope, unit in work.items() if all(unit.values())]:
                del work[scope]
        super().remove_node(node)
        return crashed


@cache
def _has(file: Path, text: str) -> bool:
    return file.is_file() and text in file.read_text(encoding="utf-8")
