# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the tools of a node in their order. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.host_guard import lock_of_host, processes_on_gpus
from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool

_WORKERS = 4
_SMI_S = 60.0
_SMI_BYTES = 4194304
# Output of journalctl for a journal that the user may not read or that is not kept; this is no kernel log.
_NO_JOURNAL = "-- No entries --"


def run_tools(
    requests: list[dict[str, Any]], max_output_bytes: int, guard: dict[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the result of every tool by its name.

    A request has `tool`, `commands`, `timeout_s`, `alone`, `after` and `again`. Of the alternatives in `commands` the
    first counts that exists, exits with 0 and prints something. Cheap tools run in parallel. Tools with `alone` run
    last, in sequence; one is left out if the tool in its `after` is missing or hung, because it would hang too. Tools
    with `again` then run once more, with the result `<tool>_after`. A tool with `beside` runs as long as the one named
    there, and is ended with it.

    With a `guard`, tools with `alone` are also left out if another run loads the host (`owner` is this run), or if its
    GPUs are in use: by what the controller knows (`in_use`), and by the processes here. `disturb` runs them even then.
    """

    def run(request: dict[str, Any]) -> dict[str, Any]:
        return _first_good(request["commands"], request["timeout_s"], max_output_bytes)

    def run_loading(request: dict[str, Any]) -> dict[str, Any]:
        with _beside(
            [other for other in requests if other.get("beside") == request["tool"]], max_output_bytes
        ) as found:
            result = run(request)
        results.update(found)
        return result

    quick = [request for request in requests if not request["alone"] and not request.get("beside")]
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        results = dict(zip([request["tool"] for request in quick], pool.map(run, quick)))
    loaded = False
    for request in requests:
        before = results.get(request["after"], {})
        if request["alone"] and not before.get("timed_out") and not before.get("missing"):
            loading = run_loading if guard is None else lambda one: _guarded(one, guard, results, run_loading)
            results[request["tool"]] = loading(request)
            loaded = loaded or not (results[request["tool"]]["missing"] or results[request["tool"]].get("withheld"))
    if loaded:
        once_more = [request for request in quick if request["again"]]
        with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
            names = [request["tool"] + "_after" for request in once_more]
            results.update(zip(names, pool.map(run, once_more)))
    return results


@contextmanager
def _beside(requests: list[dict[str, Any]], max_output_bytes: int) -> Iterator[dict[str, dict[str, Any]]]:
    """Run these tools during the block. Their results are in the mapping afterwards, by name."""
    stop = threading.Event()
    found: dict[str, dict[str, Any]] = {}

    def follow(request: dict[str, Any]) -> None:
        found[request["tool"]] = run_tool(request["commands"][0], request["timeout_s"], max_output_bytes, stop)

    threads = [threading.Thread(target=follow, args=(request,), daemon=True) for request in requests]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        for request, thread in zip(requests, threads):
            thread.join(request["timeout_s"])


def _guarded(
    request: dict[str, Any],
    guard: dict[str, Any],
    results: dict[str, dict[str, Any]],
    run: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Run a tool that loads the host, or return why it is left out."""
    with lock_of_host(guard["owner"]) as taken:
        if taken:
            return _withheld(request, "held", taken)
        users = [] if guard["disturb"] else _users(guard, results)
        if users:
            more = f" and {len(users) - 3} more" if len(users) > 3 else ""
            return _withheld(request, "in-use", "in use by " + ", ".join(users[:3]) + more)
        return run(request)


def _users(guard: dict[str, Any], results: dict[str, dict[str, Any]]) -> list[str]:
    smi = results.get("nvidia_smi_xml") or run_tool(["nvidia-smi", "-q", "-x"], _SMI_S, _SMI_BYTES)
    return list(guard["in_use"]) + processes_on_gpus(smi["stdout"])


def _withheld(request: dict[str, Any], kind: str, text: str) -> dict[str, Any]:
    return {
        "argv": list(request["commands"][0]), "rc": None, "stdout": "", "stderr": text, "duration_s": 0.0,
        "timed_out": False, "missing": False, "truncated": False, "withheld": kind,
    }  # fmt: skip


def _first_good(alternatives: list[list[str]], timeout_s: float, max_output_bytes: int) -> dict[str, Any]:
    first: dict[str, Any] = {}
    for argv in alternatives:
        result = run_tool(argv, timeout_s, max_output_bytes)
        said = result["stdout"].strip()
        if result["rc"] == 0 and said and not said.startswith(_NO_JOURNAL):
            return result
        first = first or result
    return first
