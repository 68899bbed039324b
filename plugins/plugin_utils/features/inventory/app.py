# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run takes from the inventory: the checked site, its settings, and the options of tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from ...check.fabric.features_settings import FABRIC_FEATURES, FabricFeaturesSettings
from ...check.fabric.settings import GATE as FABRIC
from ...check.fabric.settings import FabricSettings
from ...check.kit.settings import merged
from ...check.kit.settings_layers import SITE, Layer, Loaded, applied, load_settings, shipped_layers
from ...check.nodes.dcgm_diag_settings import DCGM_DIAG, DcgmDiagSettings
from ...check.registry import all_checks, all_settings, site_checks
from ...check.spec import Bmc
from ...hardware.sku import Sku, load_hardware
from ...outcome.errors import BringupError, InputError, ProblemsError
from ...outcome.gates import GATES
from ...run.known_checks import checks_by_id, gates_of_release
from ...run.settings_sources import merged_settings
from ...runtime.clock import moment_of
from ...runtime.files import recipe_directories, recipe_roots
from ...site.adapters import VARIABLE as HCAS
from ...site.inventory import VARIABLE as BMC
from ...site.inventory import InventoryFacts, site_from_inventory
from ...site.model import DriverOwner, Site, load_profiles
from ..converge.declaration import VARIABLE as DECLARATION
from ..converge.declaration import declaration_problems
from .hosts import Inventory

# Configured times that are too far ahead: decisions without an end, and a start that hides all events.

# A decision is renewed by someone who still supports it.
LONGEST_DECISION = timedelta(days=366)


def problems_ahead(options: Mapping[str, Any], loaded: Loaded, now: datetime) -> tuple[BringupError, ...]:
    """Return what is wrong with the times of an inventory.

    Args:
        options: the options of `preflight_inventory`.
        loaded: every setting that applies.
        now: the time, with its zone.
    """
    return (*_decisions(options, now.date()), *_start_of_xids(loaded, now))


def _decisions(options: Mapping[str, Any], today: date) -> Iterator[BringupError]:
    last = today + LONGEST_DECISION
    for kind in ("waivers", "acceptances"):
        entries = options.get(kind)
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            day = _day(entry.get("until")) if isinstance(entry, Mapping) else None
            if day is not None and day > last:
                reason = f"is {day}, and a decision holds for {LONGEST_DECISION.days} days at most."
                hint = f"write {last} or earlier, and renew it then"
                yield InputError(f"gpufleet_{kind}[{number}].until", reason, hint)


def _day(configured: Any) -> date | None:
    """Return a day. An invalid one is reported where decisions are read."""
    try:
        return date.fromisoformat(str(configured))
    except ValueError:
        return None


def _start_of_xids(loaded: Loaded, now: datetime) -> Iterator[BringupError]:
    value = loaded.get("kernel-xid", {}).get("not_before")
    try:
        when = moment_of(str(value.value)) if value and value.value else None
    except ValueError:
        return
    if when is not None and when.tzinfo is not None and when > now:
        reason = f"is {when.isoformat()}, in the future: every XID until then would be hidden."
        yield InputError(f"{SITE}.kernel-xid.not_before", reason, "state the time of the reset by hand")


# What is read from the site before its gates have settings: what is requested, installed, may be disturbed.
_READ_FROM_SITE = {
    **{gate.id: ("ctrf", *gate.read_early) for gate in GATES},
    DCGM_DIAG: ("disturb",),
    "gang-admission": ("provider",),
    "rdma-allocatable": ("resources", "hosts"),
    "pdu-feeds": ("pdus",),
    "storage-integrity": ("volume", "claim"),
}  # fmt: skip
# Variables about the whole site, which are read for localhost.
_SITE_VARIABLES = tuple(
    f"gpufleet_{name}"
    for name in (
        "settings",
        "criteria",
        "waivers",
        "acceptances",
        "quarantine",
        "gates",
        "profile",
        "driver_owner",
        "check_dirs",
    )
)
# Variables that hosts and groups set for themselves.
HOST_VARIABLES = ("gpufleet_sku", "gpufleet_rack", "gpufleet_node_name", HCAS, BMC)


@dataclass(frozen=True, slots=True)
class CheckedInventory:
    """What preflight takes from inventory and variables: the site, its SKUs, and every setting that applies."""

    site: Site
    hardware: dict[str, Sku]
    settings: Loaded


def checked_inventory(options: Mapping[str, Any], inventory: Inventory) -> CheckedInventory:
    """Return the site with its SKUs and settings, without any contact and without writing.

    Args:
        options: the options of `preflight_inventory`.
        inventory: groups and host variables.

    Raises:
        ProblemsError: everything that is wrong, in one list.
    """
    extra = options["recipe_data"]
    absent = [text for text in extra if not Path(text).expanduser().is_dir()]
    if absent:
        raise ProblemsError("recipe data", tuple(map(_no_directory, absent)))
    check_dirs = tuple(str(Path(text).expanduser().resolve()) for text in options["check_dirs"])
    own = site_checks(check_dirs)
    if own.problems:
        raise ProblemsError("checks of the site", own.problems)
    hardware = load_hardware(recipe_directories("hardware", extra))
    group = options["group"]
    # Ansible computes all variables of a host with each access.
    found = {name: inventory.variables[name] for name in inventory.groups.get(group, ())}
    hosts = {name: {key: variables.get(key) for key in HOST_VARIABLES} for name, variables in found.items()}
    settings = merged_settings(options["settings"], options["set"], options["forced_settings"])
    names = dict.fromkeys(str(variables.get("gpufleet_sku")) for variables in hosts.values())
    loaded, problems = checked_settings_of(
        settings, extra, [hardware[name] for name in names if name in hardware], check_dirs
    )
    settings = _with_private(settings, loaded)
    configured = {
        **options,
        "rehearsal": inventory.simulated,
        "criteria": options["criteria"] or options["default_criteria"],
        "settings": settings,
        "check_dirs": check_dirs,
    }
    site = site_from_inventory(
        InventoryFacts(
            group=group,
            groups=tuple(inventory.groups),
            hosts=hosts,
            options=configured,
            default_gates=gates_of_release(),
            profiles=load_profiles(recipe_roots(extra)),
            checks=checks_by_id(settings, check_dirs),
            hardware=hardware,
            problems=(
                *problems,
                *problems_ahead(options, loaded, datetime.now(UTC)),
                *_out_of_reach(inventory, found),
                *_declarations(found),
            ),
        )
    )
    return CheckedInventory(site, {host.sku: hardware[host.sku] for host in site.hosts}, loaded)


def _no_directory(path: str) -> InputError:
    hint = "set it to a directory of recipe data, or leave it out"
    return InputError("gpufleet_recipe_data", f"{path} is not a directory on this machine.", hint)


def _out_of_reach(inventory: Inventory, found: Mapping[str, Mapping[str, Any]]) -> list[BringupError]:
    """Return the variables about the site that are set only for its hosts, where nothing reads them."""
    here = inventory.variables.get("localhost", {})
    host, variables = next(iter(found.items()), ("", {}))
    return [
        InputError(
            name,
            f"is stated for host {host} and not for localhost, where it is read, so it has no effect.",
            "state it for group all",
        )
        for name in _SITE_VARIABLES
        if name in variables and name not in here
    ]


def _declarations(found: Mapping[str, Mapping[str, Any]]) -> list[BringupError]:
    """Return what is wrong with the site's declarations for role converge."""
    return declaration_problems({name: variables.get(DECLARATION) for name, variables in found.items()})


def checked_settings_of(
    configured: Mapping[str, Any],
    recipe_data: Sequence[str],
    skus: Iterable[Sku],
    check_dirs: tuple[str, ...] = (),
) -> tuple[Loaded, list[BringupError]]:
    """Return every setting that applies, with its source, and everything that is wrong with one.

    Args:
        configured: the site's settings, by gate or check id.
        recipe_data: private recipe directories; their `thresholds/` override those of the release.
        check_dirs: directories with checks of the site; their `thresholds/` are the defaults of their settings.
        skus: the SKUs of the hosts; settings of a SKU apply to the checks of gate nodes of its hosts.
    """
    kinds = all_settings(check_dirs)
    loaded, problems = load_settings(
        kinds, [*shipped_layers(kinds, (*check_dirs, *recipe_data)), Layer(SITE, configured)]
    )
    per_host = {
        check.spec.id: kinds[check.spec.id]
        for check in all_checks(check_dirs)
        if check.spec.gate == "nodes" or Bmc() in check.spec.applies
    }
    values = {key: {name: entry.value for name, entry in loaded.get(key, {}).items()} for key in per_host}
    for sku in skus:
        if sku.settings:
            problems += load_settings(
                per_host, [Layer("run", values, release=True), Layer(f"settings of SKU {sku.name}", sku.settings)]
            )[1]
    return loaded, problems


def _with_private(settings: Mapping[str, Any], loaded: Loaded) -> dict[str, Any]:
    """Return the site's settings, with the settings of a private recipe directory where they are read before a gate has
    settings."""
    found = {
        key: {
            name: entry.value
            for name in names
            if (entry := loaded.get(key, {}).get(name)) is not None and entry.sources != ("release",)
        }
        for key, names in _READ_FROM_SITE.items()
    }
    return merged({key: configured for key, configured in found.items() if configured}, settings)


_FABRIC_EXTRAS = {FABRIC_FEATURES: "ibdiagnet_features", "switch-health": "ibswinfo"}


def tool_options(checked: CheckedInventory) -> dict[str, Any]:
    """Return the options with which to run the tools of hosts and fabric, from the settings."""
    site = checked.site
    fabric = applied(checked.settings, FabricSettings, FABRIC)
    diagnostic = applied(checked.settings, DcgmDiagSettings, DCGM_DIAG)
    features = applied(checked.settings, FabricFeaturesSettings, FABRIC_FEATURES)
    return {
        "diag_level": 0 if site.driver_owner is DriverOwner.OPERATOR else diagnostic.level,
        "disturb": diagnostic.disturb,
        "at_once": diagnostic.at_once,
        "fabric_ports": list(fabric.ports),
        "fabric_interval_s": fabric.interval_s,
        "ibdiagnet": "ibdiagnet" in site.settings,
        "fabric_extras": [
            *(tool for check, tool in _FABRIC_EXTRAS.items() if check in site.settings),
            *(["sharp_hello"] if features.sharp_job else []),
        ],
    }
