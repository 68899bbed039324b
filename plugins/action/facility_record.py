# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module facility_record: drafts the record of a room from the inventory, ready for its owner to complete and sign."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.draft import Draft, draft_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.record import NAMESPACE, EvidenceFile
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.settings import (
    GATE,
    Allowance,
    FacilitySettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    applied,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.signature.ssh_keygen import how_to_list
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import checked_settings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware, sku_or_error
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import (
    file_to_write,
    recipe_directories,
    write_atomic,
)


class ActionModule(ModuleAction):
    """Draft a facility record."""

    module = "facility_record"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write the draft, unless there is a record already, or return the path of the record."""
        path = self._path(options, task_vars)
        command = f"ssh-keygen -Y sign -f KEY -n {NAMESPACE} {path}"
        if options["state"] == "found":
            return {"path": str(path), "sign_command": command}
        if not options["signed_by"]:
            hint = "name who signs the record: -e gpufleet_facility_record_signed_by=facility@example.org"
            raise InputError("gpufleet_facility_record_signed_by", "is not set, and a draft needs it.", hint)
        file_to_write(path)
        if path.exists() and not options["force"]:
            hint = (
                "state it: -e gpufleet_facility_record_path=... for another one, or replace it with "
                "-e gpufleet_facility_record_force=true"
            )
            raise InputError(f"facility record {path}", "is already there.", hint)
        hardware = load_hardware(recipe_directories("hardware", options["recipe_data"]))
        racks = _racks(options["group"], task_vars)
        for skus in racks.values():
            for sku in skus:
                sku_or_error(hardware, sku)
        today = datetime.now(UTC).date()
        draft = Draft(
            site=options["site_name"],
            signed_by=options["signed_by"],
            issued=today,
            expires=today + timedelta(days=options["valid_days"]),
            racks=racks,
            allowances=self._allowances(racks, options, task_vars),
            budgets=options["budgets"],
            pdus=options["pdus"],
            evidence=tuple(_evidence(path.parent, entry) for entry in options["evidence"]),
        )
        text = draft_text(draft, hardware)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if not self.check_mode:
            write_atomic(path, text)
        closing = [f"record   {path}", "", f"do: complete it, then sign it: {command}"]
        signers = self._allowed_signers(options, task_vars)
        if not signers.is_file():
            closing.append(f"do: {how_to_list(NAMESPACE, options['signed_by'])}, in {signers}")
        diff = {"before": before, "after": text, "before_header": str(path), "after_header": str(path)}
        return {
            "changed": before != text, "path": str(path), "sign_command": command, "diff": diff,
            "closing_lines": closing,
        }  # fmt: skip

    def _allowances(
        self, racks: Iterable[str], options: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Allowance]:
        """Return what the gate will count in each rack beside its hosts, by the settings of release and site."""
        configured = self._stated(options, task_vars)
        # Errors in settings of another gate are reported by preflight; a draft needs none of them.
        loaded, _problems = checked_settings_of({GATE: configured}, [str(path) for path in options["recipe_data"]], ())
        settings = applied(loaded, FacilitySettings, GATE)
        return {rack: settings.allowance(rack) for rack in racks}

    def _path(self, options: dict[str, Any], task_vars: dict[str, Any]) -> Path:
        """Return the path of the record: from the task, else from the settings."""
        configured = options["path"] or self._stated(options, task_vars).get("record")
        if not configured:
            hint = (
                "state it in group_vars/all.yml, as inventories/example does, or -e gpufleet_facility_record_path=FILE"
            )
            raise InputError(f"gpufleet_settings.{GATE}.record", "is not set; it names the file of the record.", hint)
        return Path(str(configured)).expanduser()

    def _allowed_signers(self, options: dict[str, Any], task_vars: dict[str, Any]) -> Path:
        """Return the path of the list of signers: from the settings, else beside the record as in the guide."""
        configured = self._stated(options, task_vars).get("allowed_signers")
        return (
            Path(str(configured)).expanduser()
            if configured
            else self._path(options, task_vars).with_name("allowed_signers")
        )

    def _stated(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the site's settings of the gate."""
        settings: dict[str, Any] = stated_settings(options, task_vars, self._templar, self.emit)["settings"]
        return settings.get(GATE) or {}


def _racks(group: str, task_vars: dict[str, Any]) -> dict[str, list[str]]:
    racks: dict[str, list[str]] = {}
    problems = []
    names = task_vars.get("groups", {}).get(group, [])
    if not names:
        raise InputError(f"group {group!r}", "matches no host.", "put the GPU hosts into that group, or name theirs")
    for name in names:
        found = task_vars["hostvars"][name]
        rack, sku = str(found.get("gpufleet_rack") or ""), str(found.get("gpufleet_sku") or "")
        if rack and sku:
            racks.setdefault(rack, []).append(sku)
        else:
            missing = " and ".join(
                word for word, value in (("gpufleet_rack", rack), ("gpufleet_sku", sku)) if not value
            )
            problems.append(InputError(f"host {name}", f"has no {missing}.", "set it in the inventory"))
    if problems:
        raise ProblemsError("inventory", tuple(problems))
    return racks


def _evidence(directory: Path, entry: dict[str, str]) -> EvidenceFile:
    try:
        digest = hashlib.sha256((directory / entry["path"]).read_bytes()).hexdigest()
    except OSError as error:
        hint = f"put it below {directory}, or correct evidence"
        raise InputError(f"evidence {entry['path']}", f"cannot be read: {error.strerror}.", hint) from None
    return EvidenceFile(path=entry["path"], sha256=digest, what=entry["what"])
