# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate telemetry: where Prometheus is, what is queried, and how the alert test runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...clients.kube.permission import Permission
from ...outcome.errors import InputError
from ..kit.settings import part, release_data, setting

GATE = "telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where Prometheus is, and when a series is complete and fresh."""

    url: str = setting("Where Prometheus is, as a URL; empty: a service of the cluster.", default="")
    service: str = setting("Its service, as `namespace/service:port`; empty: the one that the cluster has.", default="")
    way: Literal["port-forward", "service-proxy"] = setting("How its service is reached.", default="port-forward")
    token_file: str = setting("Path of a file with a bearer token, for a URL.", default="")
    ca_file: str = setting("Path of the certificate authority, for a URL.", default="")
    timeout_s: float = setting("Longest time of one request.", default=15.0, unit="s", above=0)
    field: str = setting("Series that every GPU must have.", default="DCGM_FI_DEV_GPU_UTIL")
    mig_field: str = setting("Series that every slice must have in MIG mode.", default="DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    fresh_intervals: float = setting(
        "A sample is fresh while it is younger than so many scrape intervals.",
        default=2.0,
        unit="intervals",
        minimum=1,
        use="judge",
    )
    interval_s: float = setting(
        "Scrape interval where Prometheus does not say that of a series (federation, remote write); 0: what it says.",
        default=0.0,
        unit="s",
        minimum=0,
    )
    settle_s: float = setting(
        "How long a fleet that was just installed may take until everything is there.",
        default=120.0,
        unit="s",
        minimum=0,
    )
    alert_fields: tuple[str, ...] = setting(
        "Series that the site's alerts need of every GPU; empty: none.",
        default=["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"],
    )
    allowed_hosts: tuple[str, ...] = setting(
        "Names, with * and ?, of hosts that are not in the inventory and yet may have series.", default=[], use="judge"
    )

    def __post_init__(self) -> None:
        if self.url and self.service:
            raise InputError(f"settings of {GATE}", "url and service are both given.", "give one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """How the alert test runs."""

    image: str = setting("Image of the test's receiver; any with Python 3.9 or newer.")
    rule_interval_s: int = setting("How often Prometheus evaluates the test's rule.", default=5, unit="s", minimum=1)
    ready_s: float = setting("How long the receiver's pod may take to be ready.", default=180.0, unit="s", above=0)
    load_s: float = setting(
        "How long rule and route may take to be loaded: an operator's configuration reaches its program only when the "
        "kubelet has looked again.",
        default=240.0,
        unit="s",
        above=0,
    )
    fire_s: float = setting(
        "How long the alert may take to fire once its rule is loaded.", default=60.0, unit="s", above=0
    )
    arrive_s: float = setting("How long it may take from firing to its receiver.", default=240.0, unit="s", above=0)
    cleanup_s: float = setting("Longest time to remove what the test made.", default=60.0, unit="s", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Settings of gate telemetry; saved with the observation."""

    metrics: MetricsSettings = part("run")
    alert: AlertSettings = part("run")
    host_labels: tuple[str, ...] = release_data(
        "Labels by which a series names its host; the first that a series has counts."
    )
    permissions: tuple[Permission, ...] = release_data(
        "What the alert test must be allowed to do; asked before anything is made."
    )


SETTINGS = TelemetrySettings
