# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parses the export of a load to figures, or to the reason why there are none. Pure, fails closed."""

from __future__ import annotations

import re

from ...outcome.errors import InputError
from ...probe import aiperf
from ...probe.aiperf import AiperfExport
from ..benchmark.problem import Problem, launch_problem
from .legs import legs_for
from .model import Load, Measured
from .settings import InferenceSettings

RATE_LIMITED = "model-hub-rate-limited"
_INSTALL_FAILED = 72
_LIMITED = re.compile(r"\b429\b.{0,40}Too Many Requests|429 Client Error|We had to rate limit")


def parse_run(load: Load, export: str, settings: InferenceSettings) -> Measured:
    """Return a load with its figures, or with the problem that leaves it without any."""
    problem = _ended_badly(load)
    if problem is not None:
        return Measured(load=load, problem=problem)
    try:
        parsed = aiperf.parse(export)
    except InputError as error:
        return Measured(load=load, problem=Problem("export-unreadable", error.reason[:400]))
    return Measured(load=load, export=parsed, problem=_not_as_asked(load, parsed, settings))


def _ended_badly(load: Load) -> Problem | None:
    launch = launch_problem(load.state, load.reason)
    if launch:
        return Problem(*launch)
    if load.state == "timeout":
        return Problem("benchmark-hung", f"did not end in its time: {load.reason}"[:400])
    if load.exit_code == _INSTALL_FAILED:
        return Problem("benchmark-not-installed", "AIPerf could not be installed in its pod")
    if load.unreadable:
        return Problem("export-truncated", load.unreadable[:400])
    if load.state != "succeeded" and _LIMITED.search(load.reason):
        return Problem(RATE_LIMITED, f"AIPerf did not get its tokenizer: {load.reason}"[:400])
    if load.state != "succeeded" or load.exit_code != 0:
        code = "no known exit code" if load.exit_code is None else f"exit code {load.exit_code}"
        return Problem("benchmark-crashed", f"AIPerf ended with {code}: {load.reason}"[:400])
    if not load.export:
        return Problem("export-missing", f"AIPerf wrote no export: {load.reason}"[:400])
    return None


def _not_as_asked(load: Load, export: AiperfExport, settings: InferenceSettings) -> Problem | None:
    """Return what makes figures worthless: requests that failed, were cut off, or got another answer than asked for."""
    if export.cancelled or not export.complete:
        return Problem("benchmark-cancelled", f"the run was cut off after {export.requests} requests")
    if export.errors:
        kinds = "; ".join(f"{kind.count} x {kind.code} {kind.kind}".strip() for kind in export.error_kinds[:3])
        text = f"{export.errors} of {export.errors + export.requests} requests failed: {kinds}"
        return Problem("request-errors", text[:400], bad=True)
    if wrong := _other_than_planned(load, settings):
        return Problem("other-load", wrong)
    if export.requests != load.requests:
        return Problem("requests-missing", f"{export.requests} of {load.requests} requests are in the export")
    if wrong := _wrong_load(load, export, settings):
        return Problem("other-load", wrong)
    asked, given = settings.load.input_tokens, export.input_tokens.mean
    if abs(given - asked) > settings.load.input_tolerance * asked:
        text = f"the server counts {given:.0f} tokens a prompt, asked for were {asked}: its tokenizer is another one"
        return Problem("tokenizer-mismatch", text)
    return _wrong_length(export, settings)


def _other_than_planned(load: Load, settings: InferenceSettings) -> str:
    leg = next((leg for leg in legs_for(settings.load, load.gpus) if leg.name == load.leg), None)
    if leg is None:
        return f"a load {load.leg!r} that the settings do not have"
    noted = {"requests at a time": load.concurrency, "requests": load.requests, "requests before": load.warmup}
    planned = {"requests at a time": leg.concurrency, "requests": leg.requests, "requests before": leg.warmup}
    wrong = [f"{name}: {noted[name]} noted, {planned[name]} planned" for name in noted if noted[name] != planned[name]]
    return ", ".join(wrong)


def _wrong_load(load: Load, export: AiperfExport, settings: InferenceSettings) -> str:
    phase = export.phases.get("profiling", {})
    found = {"requests at a time": phase.get("concurrency"), "requests": phase.get("requests"), "seed": export.seed}
    # Runs of before there were several loads did not note their seed; it was that of the settings.
    wanted = {
        "requests at a time": load.concurrency, "requests": load.requests, "seed": load.seed or settings.load.seed,
    }  # fmt: skip
    if load.warmup:
        found["requests before"] = export.phases.get("warmup", {}).get("requests")
        wanted["requests before"] = load.warmup
    return ", ".join(
        f"{name}: {found[name]}, asked for {wanted[name]}" for name in wanted if found[name] != wanted[name]
    )


def _wrong_length(export: AiperfExport, settings: InferenceSettings) -> Problem | None:
    asked, given = settings.load.output_tokens, export.output_tokens
    # Every answer has the length that was asked for, for the end of the text does not end it (ignore_eos).
    if given.least < asked or export.mismatches:
        count = f"{export.mismatches} of {export.requests} answers" if export.mismatches else "some answers"
        lengths = f"{given.least:g} to {given.most:g}, {given.mean:g} on average"
        text = f"{count} are of another length than {asked} tokens: {lengths}"
        return Problem("short-answers", text, bad=True)
    return None
