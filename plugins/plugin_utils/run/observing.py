# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Running the observers of a gate, each once, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from time import monotonic
from typing import Any

from ..check.declare import GatePlan
from ..check.observation import Observation, look, observe, save_observation
from ..check.registry import AnyObserver
from ..check.site_checks import site_limit_s
from ..check.spec import Disturbance, ObserveContext
from ..outcome.errors import BringupError, DeadlineError
from ..outcome.gates import STACK_GATE
from ..runtime.clock import elapsed_text, ended_by, time_limit
from ..runtime.interrupt import interruptible
from ..runtime.progress import Progress
from ..site.model import Site

LONGER = (
    "see what it waited for in the progress lines; the recipe's validation section states the time that a phase has"
)
# The time for a site's check to remove its pods after its limit; one that does not react would hold the run for ever.
_SITE_ENDS_S = 120.0


def disturbs_cluster(declaration: GatePlan, site: Site) -> bool:
    """Return whether a declared check of the gate creates test pods or jobs, or loads GPUs in existing pods."""
    if not {"kubernetes", "slurm"} & set(site.capabilities):
        return False
    return declaration.gate == STACK_GATE or any(
        check.spec.disturbs_at(site).makes_pods for check in declaration.checks
    )


def observe_gate(
    declaration: GatePlan,
    context: ObserveContext,
    *,
    check_mode: bool,
    refused: BringupError | None = None,
    limit_s: Callable[[AnyObserver], float] | None = None,
) -> list[Observation]:
    """Let every observer that a declared check needs look once, and return what was saved.

    An observer whose pods take no GPU runs beside the others, which run one after another. With `refused` no observer
    runs, and that error is the reason for the missing observations. `limit_s` returns the seconds that an observer may
    take, 0 for no limit; what does not end in time is saved as such.
    """
    progress = Progress(context.emit)
    context = replace(context, check_mode=check_mode)
    needed = needed_observers(declaration)
    alone = check_mode or refused is not None or len(needed) == 1
    beside = {} if alone else {entry.key: entry for entry, disturbs in needed if disturbs is Disturbance.PLAIN_PODS}
    looking = [
        Looking(
            observer=observer, gate=declaration.gate, context=context, pods=True,
            limit_s=_seconds(observer, limit_s),
        )
        for observer in beside.values()
    ]  # fmt: skip
    seen = []
    none: AbstractContextManager[list[Observation]] = nullcontext([])
    with looking_meanwhile(looking) if looking else none as meanwhile:
        for observer, disturbs in needed:
            if observer.key in beside:
                continue
            progress.say(f"{declaration.gate}: looking at {observer.key}")
            problem = refused or (_check_mode(observer) if check_mode and disturbs.makes_pods else None)
            within = limited(observer, _seconds(observer, limit_s))
            chosen = refusing(observer, problem) if problem else within
            seen.append(_reported(observe(chosen, declaration.gate, context), progress))
    return [*seen, *meanwhile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """One observer that disturbs no other: its gate, its context, and its limit in seconds (0: no limit).

    `pods`: it creates some, and the end waits until they are removed.
    """

    observer: AnyObserver
    gate: str
    context: ObserveContext
    limit_s: float = 0.0
    pods: bool = False


@contextmanager
def looking_meanwhile(entries: Sequence[Looking]) -> Iterator[list[Observation]]:
    """Let these observers run at once, beside the block; the list is filled when the block ends.

    What has not ended within its time is saved as such, and its later observation is dropped. However the block ends,
    SIGTERM included, an observer that creates pods is told to end and has removed them before this returns; a site's
    own observer has a limit for that.

    Raises:
        AbortedError: a signal asked for the end while an observer that creates pods was running.
    """
    seen: list[Observation] = []
    over = [Event() for _entry in entries]
    with interruptible("looking") if any(entry.pods for entry in entries) else nullcontext():
        pool, futures, waits = ThreadPoolExecutor(max_workers=max(1, len(entries))), [], False
        try:
            begun = monotonic()
            futures = [pool.submit(_look_until, stop, entry) for stop, entry in zip(over, entries, strict=True)]
            for entry in entries:
                Progress(entry.context.emit).say(f"{entry.gate}: looking at {entry.observer.key}, beside others")
            yield seen
            for entry, stop, future in zip(entries, over, futures, strict=True):
                left_s = max(0.0, begun + entry.limit_s - monotonic()) if entry.limit_s else None
                try:
                    found = future.result(timeout=left_s)
                except FutureTimeoutError:
                    stop.set()
                    found = look(refusing(entry.observer, _too_late(entry)), entry.gate, entry.context)
                seen.append(_reported(save_observation(found, entry.context.run_dir), Progress(entry.context.emit)))
            waits = all(future.done() for future in futures)
        finally:
            for stop in over:
                stop.set()
            makers = [(entry, future) for entry, future in zip(entries, futures, strict=False) if entry.pods]
            wait([future for entry, future in makers if not site_limit_s(entry.observer)])
            wait([future for _entry, future in makers], timeout=_SITE_ENDS_S)
            pool.shutdown(wait=waits, cancel_futures=True)


def _look_until(stop: Event, entry: Looking) -> Observation:
    with ended_by(stop):
        return look(entry.observer, entry.gate, entry.context)


def _too_late(entry: Looking) -> DeadlineError:
    text = f"did not end within {elapsed_text(entry.limit_s)}."
    return DeadlineError(f"observer {entry.observer.key}", text, LONGER)


def _reported(entry: Observation, progress: Progress) -> Observation:
    if entry.error is not None:
        progress.say(f"{entry.gate}: {entry.key} could not be seen: {entry.error['reason']}")
    return entry


def needed_observers(declaration: GatePlan) -> list[tuple[AnyObserver, Disturbance]]:
    """Return the observers that the declared checks of a gate need, each with the most that one of them disturbs."""
    order = list(Disturbance)
    needed: dict[str, tuple[AnyObserver, Disturbance]] = {}
    for check in declaration.checks:
        observer = check.observer
        before = needed.get(observer.key, (observer, Disturbance.NOTHING))[1]
        needed[observer.key] = (observer, max(before, check.spec.disturbs, key=order.index))
    return list(needed.values())


def _check_mode(observer: AnyObserver) -> BringupError:
    return BringupError(
        f"observer {observer.key}", "makes test pods or jobs, and this is check mode.", "run without --check"
    )


def _seconds(observer: AnyObserver, limit_s: Callable[[AnyObserver], float] | None) -> float:
    """Return how long an observer may take, in seconds, 0 for no limit but its own."""
    return (limit_s(observer) if limit_s else 0.0) or site_limit_s(observer)


def limited(observer: AnyObserver, limit_s: float) -> AnyObserver:
    """Return an observer with a limit in seconds; 0: no limit."""
    if not limit_s:
        return observer

    def look(context: ObserveContext) -> Any:
        with time_limit(f"observer {observer.key}", limit_s, LONGER):
            return observer.observe(context)

    return replace(observer, observe=look)


def refusing(observer: AnyObserver, problem: BringupError) -> AnyObserver:
    """Return an observer that raises the reason why nothing is observed, in place of that one."""

    def refuse(_context: ObserveContext) -> None:
        raise problem

    return replace(observer, observe=refuse)
