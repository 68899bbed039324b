# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What Prometheus and Alertmanager answer, as values."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector: its labels without `__name__`, and its value."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector. `at` is the moment for which it was computed, on the clock of Prometheus;
    0 if it is empty, which does not tell."""

    at: float
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """One active scrape target: `discovered` are its labels before relabelling."""

    pool: str
    url: str
    health: str
    last_error: str
    interval_s: float
    labels: dict[str, str] = field(default_factory=dict)
    discovered: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as Prometheus has it: `state` is inactive, pending or firing, empty for a recording rule; `health` is
    ok, unknown (never evaluated yet) or err."""

    group: str
    name: str
    state: str
    health: str
    last_error: str = ""
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that Alertmanager has: its labels, its state, and the receivers that it goes to."""

    labels: dict[str, str]
    state: str
    receivers: tuple[str, ...]
