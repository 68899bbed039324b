# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rma_pack: packs what a vendor needs when a part goes back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rma.app import RmaRequest, make_pack, write_pack
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir

_ADD = """do: add files to the pack with -e '{"gpufleet_rma_files": ["nvidia-bug-report.log.gz"]}'"""


class ActionModule(ModuleAction):
    """Pack a part."""

    module = "rma_pack"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Make the pack from the run, and write it unless the same one is there."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        requested = RmaRequest(
            subject=options["subject"],
            case=options["case"],
            contact=options["contact"],
            files=tuple(Path(path).expanduser() for path in options["files"]),
            store=Path(options["store"]).expanduser() if options["store"] else None,
        )
        pack = make_pack(run, requested)
        archive = pack.archive()
        configured = (
            options["dest"] or run.path / "rma" / f"{requested.subject.replace('/', '-').replace(':', '_')}.tar.gz"
        )
        path = Path(configured).expanduser()
        changed = not path.is_file() or path.read_bytes() != archive
        if changed and not self.check_mode:
            write_pack(path, archive)
        for outcome in pack.against:
            self.emit(f"{outcome.cause}: {outcome.summary}")
        for text in pack.missing:
            self.emit(f"still to be added: {text}")
        self.emit(f"{'would be written' if self.check_mode else 'pack'}: {path}")
        lines = [f"{'would be' if self.check_mode else 'pack':8} {path}"]
        lines += [f"to add   {text}" for text in pack.missing]
        if pack.missing:
            lines.append(_ADD)
        return {
            "changed": changed,
            "closing_lines": lines,
            "path": str(path),
            "sha256": hashlib.sha256(archive).hexdigest(),
            "page": pack.page,
            "causes": list(dict.fromkeys(outcome.cause for outcome in pack.against)),
            "missing": list(pack.missing),
            "exit_code": 0,
        }
