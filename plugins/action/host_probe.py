# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs module host_probe on the host with the commands of gates/nodes/tools.yaml, and keeps what it collected."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import time
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.loader import become_loader, connection_loader, filter_loader, shell_loader, test_loader

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import argument_spec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.host_limit import (
    MARGIN_S,
    end_children,
    host_limit,
    keep_alive,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import (
    ModuleAction,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HOSTS,
    HostEvidence,
    ToolRun,
    clock_off_s,
    evidence_file,
    prepare_evidence,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import around_kind, tools_asked_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import (
    LOADING_LEVEL,
    Request,
    longest_s,
    node_requests,
    positive,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    DeadlineError,
    InputError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import shortened
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.gpu_users import guard_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import elapsed_text, now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interrupt import Interrupted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import excerpt

# Ansible's main process loads this before it forks a worker for every host: what all of them need is made once.
with suppress(ImportError, BringupError):
    load_host_tools()
    prepare_evidence()
    argument_spec("host_probe")
    for _loader, _plugin in ((connection_loader, "ssh"), (become_loader, "sudo"), (shell_loader, "sh")):
        _loader.get(_plugin, class_only=True)
    # Filters and tests decide whether a task is run.
    for _functions in (filter_loader, test_loader):
        list(_functions.all())
    # Serialization profiles of Ansible for module arguments and results: internal names, which another release may not
    # have.
    for _way in ("c2m", "m2c"):
        import_module(f"ansible.module_utils._internal._json._profiles._module_legacy_{_way}")
with suppress(ImportError, AttributeError, TypeError):
    # What the result of a module may report about its task.
    _result = import_module("ansible._internal._task").UnifiedTaskResult
    for _module in (False, True):
        _result.get_result_key_to_resolved_field_mapping(source_is_module=_module)


class ActionModule(ModuleAction):
    """Collect from one host; errors on it are recorded and do not fail the task."""

    module = "host_probe"
    kind = HOSTS
    _requires_connection = True

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run the module, write the evidence, return a summary."""
        run_dir = existing_run_dir(options["run_dir"])
        for name in ("requests", "guard"):
            if options.get(name) is not None:
                raise InputError(name, "is stated.", "leave it out: the action plugin fills it in")
        positive("max_output_bytes", options["max_output_bytes"])
        requests = self._requests(options)
        # A delegated task is about the host that it runs on.
        host = str(self._task.delegate_to or task_vars.get("inventory_hostname", ""))
        kind = self._kind(options)
        relative = evidence_file(host, kind)
        reported = {"requests": requests, "guard": self._guard(run_dir, host, options)}
        evidence = self._collected(host, options | reported, task_vars)
        try:
            write_evidence(run_dir, evidence, kind)
        except OSError as error:
            raise InputError(str(run_dir / relative), f"cannot be written: {error.strerror}.") from None
        return {
            "changed": False,
            "reached": evidence.reached,
            "reason": evidence.reason,
            "evidence": relative,
            "tools": {name: _in_words(run) for name, run in evidence.tools.items()},
        }

    def _kind(self, options: dict[str, Any]) -> str:
        """Return the kind of evidence: that of the host as it is, or one of two readings around the load of a gate."""
        return around_kind(options, self.kind)

    def _requests(self, options: dict[str, Any]) -> list[Request]:
        if options["around_gate"]:
            tools = [tool.name for tool in tools_asked_again()]
            return node_requests(
                tools=tools, timeout_s=options["timeout"], timeouts=options["timeouts"], diag_level=0,
            )  # fmt: skip
        return node_requests(
            tools=options["tools"],
            timeout_s=options["timeout"],
            timeouts=options["timeouts"],
            diag_level=0 if self.check_mode else options["diag_level"],
            diag_timeout_s=options["diag_timeout"],
        )

    def _guard(self, run_dir: Path, host: str, options: dict[str, Any]) -> dict[str, Any] | None:
        """Return what the host needs to know before its GPUs are loaded."""
        level = options["diag_level"]
        return guard_of(run_dir, host, disturb=options["disturb"] or level < LOADING_LEVEL)

    def _collected(self, host: str, options: dict[str, Any], task_vars: dict[str, Any]) -> HostEvidence:
        started, asked_s = now_utc(), time()
        given = {name: value for name, value in options.items() if value is not None}
        keep_alive(self._connection)
        try:
            with host_limit(host, longest_s(options["requests"]) + MARGIN_S):
                result = self._execute_module(
                    module_name=f"gpufleet.bringup.{self.module}", module_args=given, task_vars=task_vars
                )
            off_s = clock_off_s(result.get("clock"), asked_s, time())
        except AnsibleError as error:
            return unreached(host, excerpt(str(error), 400))
        except DeadlineError as error:
            return unreached(host, error.reason)
        except Interrupted:
            end_children()
            raise
        runs = result.get("tool_runs")
        if result.get("failed") or result.get("unreachable") or not isinstance(runs, dict):
            reported = result.get("module_stderr") or result.get("msg") or "the probe returned nothing"
            return unreached(host, excerpt(f"the probe did not run: {reported}", 400))
        try:
            tools = {str(name): from_plain(ToolRun, run, f"tool {name} of {host}") for name, run in runs.items()}
        except InputError as error:
            return unreached(host, str(error))
        return HostEvidence(host=host, reached=True, started=started, tools=tools, clock_off_s=off_s)


def _in_words(run: ToolRun) -> str:
    if run.withheld:
        return shortened(f"not run, {run.stderr}", 199)
    if run.missing:
        return "missing"
    if run.timed_out:
        return f"no answer within {elapsed_text(run.duration_s)}"
    cut = ", output cut" if run.truncated else ""
    return f"{'ok' if run.rc == 0 else f'exit code {run.rc}'}, {elapsed_text(run.duration_s)}{cut}"
