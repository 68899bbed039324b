# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Builds the Site from the inventory. All problems are found in one pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from ..hardware.sku import Sku, hca_names_problem
from ..outcome.decisions import Acceptance, Quarantine, Waiver, parsed_day, require_filled
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..outcome.gates import GATE_IDS, GATES, STACK_GATE
from ..outcome.model import SubjectKind
from ..runtime.strict import decode, nearest, nearest_hint
from .adapters import VARIABLE as HCAS
from .model import NO_SITE, DriverOwner, Host, Profile, Site, SitePool, SiteProfile

# Reads waivers, acceptances and quarantine from the inventory, and finds those that can never apply.

T = TypeVar("T")
Checks = Mapping[str, SubjectKind]
"""Every check that can be waived or accepted, with the kind of its subjects."""
_OF_THE_WHOLE = (SubjectKind.SITE, SubjectKind.CLUSTER)
# Names of links and of parts of hosts, known only from observations, have one of these.
_PART = ("/", ":", " ")


def quarantine_of(entries: Any, hosts: Iterable[Host], problems: list[BringupError]) -> tuple[Quarantine, ...]:
    """Return the quarantined nodes, and add their problems."""
    names = [host.name for host in hosts]

    def unknown(configured: Mapping[str, str], where: str) -> list[BringupError]:
        node = configured.get("node")
        if node is None or node in names:
            return []
        return [InputError(f"{where}.node", f"{node!r} is not a host of the group.", nearest_hint(node, names))]

    return _entries(Quarantine, entries, "gpufleet_quarantine", unknown, problems)


@dataclass(frozen=True)
class Nameable:
    """What a waiver or an acceptance may name: checks, the site, its hosts, and by host the number of GPUs."""

    checks: Checks
    site: str
    hosts: tuple[Host, ...]
    gpus: Mapping[str, int]


def waivers_of(entries: Any, known: Nameable, problems: list[BringupError]) -> tuple[Waiver, ...]:
    """Return the waivers, and report those that are incomplete, name no check, or match no subject."""
    return _entries(Waiver, entries, "gpufleet_waivers", _lookup(known), problems)


def acceptances_of(entries: Any, known: Nameable, problems: list[BringupError]) -> tuple[Acceptance, ...]:
    """Return the acceptances, and report those that are incomplete, name no check, or match no subject."""
    return _entries(Acceptance, entries, "gpufleet_acceptances", _lookup(known), problems)


def component_problems(
    variable: str, entries: Iterable[Waiver], checks: Checks, components: Iterable[str]
) -> list[BringupError]:
    """Return waivers or acceptances of checks per component that match none of the recipe's components."""
    names = tuple(components)
    return [
        _no_match(f"{variable}: check {entry.check}", entry.subject, "component of the recipe", names)
        for entry in entries
        if checks.get(entry.check) is SubjectKind.COMPONENT and not _matches(entry.subject, names)
    ]


def _lookup(known: Nameable) -> Callable[[Mapping[str, str], str], list[BringupError]]:
    nodes = tuple(host.name for host in known.hosts)
    racks = tuple(sorted({host.rack for host in known.hosts if host.rack}))

    def wrong(configured: Mapping[str, str], where: str) -> list[BringupError]:
        check, subject = configured.get("check"), configured.get("subject")
        if check is None:
            return []
        kind = known.checks.get(check)
        if kind is None:
            unknown = InputError(f"{where}.check", f"{check!r} is not a check.", nearest_hint(check, known.checks))
            # Its subject is compared with those of the check that was probably meant.
            near = get_close_matches(check, known.checks, n=1, cutoff=0.55)
            reported = _no_subject(known.checks[near[0]], subject, f"{where}.subject") if near and subject else []
            return [unknown, *reported]
        return _no_subject(kind, subject, f"{where}.subject") if subject is not None else []

    def _no_subject(kind: SubjectKind, subject: str, where: str) -> list[BringupError]:
        if kind is SubjectKind.NODE and not _matches(subject.partition("/")[0], nodes):
            return [_no_match(where, subject, "host of the group", nodes)]
        if kind is SubjectKind.NODE and (most := _gpus_too_few(subject, known.gpus)):
            reason = f"{subject!r} is no GPU: that host has {most}, gpu0 to gpu{most - 1}."
            return [InputError(where, reason, "name one of them, or the host")]
        if kind is SubjectKind.RACK and not _matches(subject, racks):
            return [_no_match(where, subject, "rack of the hosts", racks)]
        names = (known.site, *nodes, *racks)
        part = any(sign in subject for sign in _PART)
        if kind in _OF_THE_WHOLE and not part and not _matches(subject, names):
            return [_no_match(where, subject, "site, host or rack", names)]
        return []

    return wrong


def _gpus_too_few(subject: str, gpus: Mapping[str, int]) -> int:
    """Return the number of GPUs of the hosts in a subject such as `gpu01/gpu9`, 0 if one of them has that GPU."""
    host, _slash, part = subject.partition("/")
    counts = [count for name, count in gpus.items() if fnmatchcase(name, host)]
    number = part.removeprefix("gpu")
    if not counts or not part.startswith("gpu") or not number.isdecimal() or int(number) < max(counts):
        return 0
    return max(counts)


def _matches(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _no_match(where: str, pattern: str, thing: str, names: tuple[str, ...]) -> BringupError:
    return InputError(where, f"{pattern!r} matches no {thing}.", nearest_hint(pattern, names))


def _entries(
    kind: type[T],
    entries: Any,
    variable: str,
    wrong: Callable[[Mapping[str, str], str], list[BringupError]],
    problems: list[BringupError],
) -> tuple[T, ...]:
    """Return the entries. `wrong` also runs on an incomplete entry, so that all problems are reported at once."""
    if entries is None:
        return ()
    if not isinstance(entries, list):
        reason = f"is {type(entries).__name__}, expected a list."
        problems.append(InputError(variable, reason, "write a list of entries"))
        return ()
    found: list[T] = []
    for number, entry in enumerate(entries):
        where = f"{variable}[{number}]"
        plain = _texts(entry)
        pairs = plain.items() if isinstance(plain, Mapping) else ()
        configured = {key: text for key, text in pairs if isinstance(text, str) and text.strip()}
        try:
            found.append(decode(kind, plain, where))
        except ProblemsError as error:
            problems.extend(error.problems)
            reported = {problem.reason for problem in error.problems}
            also = [*_empty(kind, pairs, where), *_no_day(configured, where)]
            problems.extend(problem for problem in also if problem.reason not in reported)
        problems.extend(wrong(configured, where))
    return tuple(found)


def _empty(kind: Any, pairs: Iterable[tuple[Any, Any]], where: str) -> list[BringupError]:
    """Return the fields of a decision that are there and empty. They are checked here for an incomplete entry, too."""
    names = {entry.name for entry in fields(kind)}
    try:
        require_filled(where, **{key: text for key, text in pairs if key in names and isinstance(text, str)})
    except InputError as error:
        return [error]
    return []


def _no_day(configured: Mapping[str, str], where: str) -> list[BringupError]:
    """Return what is wrong with the last day of a decision. It is checked here for an incomplete entry, too."""
    try:
        if "until" in configured:
            parsed_day(configured["until"], where)
    except InputError as error:
        return [error]
    return []


def _texts(entry: Any) -> Any:
    # YAML reads an unquoted day as a date and a bare ticket as a number. A decision has only texts.
    if not isinstance(entry, Mapping):
        return entry
    return {key: str(value) if isinstance(value, (int, float, date)) else value for key, value in entry.items()}


# Address of a Redfish service in the inventory: a name or an address, with or without port and scheme.

VARIABLE = "gpufleet_bmc"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_ADDRESS = re.compile(rf"(?:https://)?({_HOST})(?::([0-9]{{1,5}}))?/?")


def service_url(address: object) -> str:
    """Return `https://host[:port]` of a configured address, empty if there is none.

    Raises:
        ValueError: what is wrong with it. The value may be a password, so the text does not repeat it.
    """
    if address is None or address == "":
        return ""
    if not isinstance(address, str):
        raise ValueError(f"is {type(address).__name__}, expected a text such as bmc-gpu01.example.org.")
    if "@" in address:
        raise ValueError("holds an account; state the address alone, and the account in gpufleet_settings.")
    if address.startswith("http://"):
        raise ValueError("is http, and a password is not sent in the clear; state the https address.")
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or int(found[2] or 1) not in range(1, 65536):
        raise ValueError("is no address; expected such as bmc-gpu01.example.org, 10.0.0.7:8443 or [fd00::7].")
    return f"https://{found[1]}" + (f":{int(found[2])}" if found[2] else "")


# Builds the Site from the inventory. All problems are found in one pass.

# The cluster shows its autoscaler only once hosts are queried, but checks are declared before that.
_NO_AUTOSCALER = (
    "gpufleet_settings.cluster-autoscaling is not given; set it to {} where nodes are added as pods need them, else to "
    "{added: false}"
)
_FIXED_NODES = "the site states that nobody adds nodes to its cluster (gpufleet_settings.cluster-autoscaling.added)"
_NO_FEATURES = "gpufleet_settings.fabric-features states neither adaptive routing nor SHARP"
_NO_SWITCHES = "gpufleet_settings.switch-health is not given; set it to {} where ibswinfo is installed"
_NO_IBDIAGNET = "gpufleet_settings.ibdiagnet is not given; set it to {} where ibutils2 is installed"

_JOBS_OF_SLURM = "fabric_validation"
_NO_KUBERNETES = "Slurm gives the hosts their work (gpufleet_orchestrator)"
_NO_BMC = f"no host of the inventory has {VARIABLE}, the address of its BMC"
_NO_PDU = "gpufleet_settings.pdu-feeds.pdus names no PDU"
_NO_SHARED_VOLUME = "gpufleet_settings.storage-integrity states neither volume nor claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFacts:
    """Inventory data that preflight read from Ansible.

    - `hosts`: gpufleet_* variables of the hosts in group `group`.
    - `groups`: names of all groups, for the error.
    - `options`: the run's own gpufleet_* options without the prefix.
    - `checks`: all checks by id.
    - `problems`: problems found before, such as wrong settings. They are reported in the same list.
    """

    group: str
    groups: tuple[str, ...]
    hosts: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any]
    default_gates: tuple[str, ...]
    profiles: Mapping[str, Profile]
    checks: Checks
    hardware: Mapping[str, Sku] = field(default_factory=dict)
    problems: tuple[BringupError, ...] = ()


def site_from_inventory(facts: InventoryFacts) -> Site:
    """Return the site.

    Raises:
        ProblemsError: everything wrong with the inventory and its variables, as one list.
    """
    problems: list[BringupError] = list(facts.problems)
    hosts = _hosts(facts, problems)
    gates = _gates(facts.options, facts.default_gates, problems)
    from_gate = _from_gate(facts.options, gates, problems)
    options = facts.options
    quarantine = quarantine_of(options.get("quarantine"), hosts, problems)
    name = str(options.get("site_name") or NO_SITE)
    profile = SiteProfile(options.get("profile") or "on_premises")
    gpus = {host.name: facts.hardware[host.sku].gpus for host in hosts if host.sku in facts.hardware}
    nameable = Nameable(facts.checks, name, hosts, gpus)
    site = Site(
        name=name,
        profile=profile,
        hosts=hosts,
        gates=gates,
        from_gate=from_gate,
        driver_owner=DriverOwner(options.get("driver_owner") or "host"),
        orchestrator=str(options.get("orchestrator") or "kubernetes"),
        minimum_nodes=int(options.get("minimum_nodes") or 0),
        criteria=_criteria(facts, hosts),
        settings={k: dict(v) for k, v in (options.get("settings") or {}).items() if isinstance(v, Mapping)},
        waivers=waivers_of(options.get("waivers"), nameable, problems),
        acceptances=acceptances_of(options.get("acceptances"), nameable, problems),
        quarantine=quarantine,
        rehearsal=bool(options.get("rehearsal")),
        pools=_pools(options.get("pools") or (), problems),
        capabilities=(),
        check_dirs=tuple(options.get("check_dirs") or ()),
    )
    _check_orchestrator(site, problems)
    _check_minimum(site, problems)
    _check_racks(site, facts.profiles[profile.value].capabilities, problems)
    if problems:
        raise ProblemsError("this command", tuple(problems))
    return _with_capabilities(site, facts)


# Groups that exist without an inventory.
_OF_ANSIBLE = frozenset({"all", "ungrouped"})


def _hosts(facts: InventoryFacts, problems: list[BringupError]) -> tuple[Host, ...]:
    if not facts.hosts:
        there = ", ".join(sorted(facts.groups)) or "none"
        problems.append(
            InputError(
                f"group {facts.group!r}",
                f"matches no host; groups in the inventory: {there}.",
                "put the GPU hosts into that group, or name theirs in gpufleet_group"
                if {*facts.groups} - _OF_ANSIBLE
                else "name the inventory of the site: -i INVENTORY, with the GPU hosts in that group",
            )
        )
    hosts = tuple(_host(name, variables, facts, problems) for name, variables in facts.hosts.items())
    owners: dict[str, str] = {}
    for host in hosts:
        first = owners.setdefault(host.node_name, host.name)
        if first != host.name:
            problems.append(
                InputError(
                    f"host {host.name}",
                    f"has node name {host.node_name!r}, which host {first} has too.",
                    "correct gpufleet_node_name",
                )
            )
    return hosts


def _host(name: str, variables: Mapping[str, Any], facts: InventoryFacts, problems: list[BringupError]) -> Host:
    sku = str(variables.get("gpufleet_sku") or "")
    if sku not in facts.hardware:
        found = f"gpufleet_sku is {sku!r}, which is not in the hardware facts" if sku else "has no gpufleet_sku"
        near = nearest(sku, facts.hardware)
        some = ", ".join(get_close_matches(sku, facts.hardware, n=3, cutoff=0.4) or sorted(facts.hardware)[:5])
        hint = nearest_hint(sku, near) if near else f"set gpufleet_sku to one of recipes/hardware/, for example {some}"
        problems.append(InputError(f"host {name}", f"{found}.", hint))
    return Host(
        name=name,
        sku=sku,
        node_name=str(variables.get("gpufleet_node_name") or name),
        rack=str(variables.get("gpufleet_rack") or ""),
        hcas=_hcas(name, variables.get(HCAS), facts.hardware.get(sku), problems),
        bmc=_bmc(name, variables.get(VARIABLE), problems),
    )


def _bmc(name: str, configured: Any, problems: list[BringupError]) -> str:
    try:
        return service_url(configured)
    except ValueError as error:
        problems.append(InputError(f"host {name}: {VARIABLE}", str(error), "correct it, or leave it out"))
        return ""


def _hcas(name: str, configured: Any, sku: Sku | None, problems: list[BringupError]) -> tuple[str, ...]:
    """Return the configured names of the host's adapters, and add their problems."""
    if configured is None or sku is None:
        return ()
    if not isinstance(configured, list) or not all(isinstance(entry, str) for entry in configured):
        wrong = f"is {configured!r}, expected a list of names such as [mlx5_0, mlx5_3]."
    else:
        wrong = hca_names_problem(configured, sku.compute_hcas)
    if wrong:
        hint = f"correct {HCAS} of the host or its group, or leave it out where SKU {sku.name} has the names"
        problems.append(InputError(f"host {name}: {HCAS}", wrong, hint))
        return ()
    return tuple(configured)


def _criteria(facts: InventoryFacts, hosts: tuple[Host, ...]) -> dict[str, str]:
    """Return the configured criteria. The accelerator follows from the SKUs if all have the same one."""
    configured = {str(key): str(value) for key, value in (facts.options.get("criteria") or {}).items()}
    found = {facts.hardware[host.sku].accelerator for host in hosts if host.sku in facts.hardware}
    return {"accelerator": str(found.pop())} | configured if len(found) == 1 else configured


def _pools(given: Sequence[Mapping[str, Any]], problems: list[BringupError]) -> tuple[SitePool, ...]:
    """Return the configured pools, each with a unique name."""
    pools: list[SitePool] = []
    for number, entry in enumerate(given, 1):
        name = str(entry.get("name") or "")
        if not name or name in {pool.name for pool in pools}:
            reason = (
                f"entry {number} has the name of another one, {name!r}." if name else f"entry {number} has no name."
            )
            problems.append(InputError("gpufleet_recipe_pools", reason, "give every pool a name of its own"))
            continue
        texts = [{str(k): str(v) for k, v in (entry.get(key) or {}).items()} for key in ("criteria", "node_selector")]
        pools.append(SitePool(name=name, criteria=texts[0], node_selector=texts[1]))
    return tuple(pools)


def scope_problems(gates: Sequence[str], from_gate: str) -> list[BringupError]:
    """Return what is wrong with the gates of a run and its first gate, by their names alone."""
    problems: list[BringupError] = []
    options = {"gates": gates, "from_gate": from_gate}
    _from_gate(options, _gates(options, GATE_IDS, problems), problems)
    return problems


def _gates(
    options: Mapping[str, Any], default_gates: tuple[str, ...], problems: list[BringupError]
) -> tuple[str, ...]:  # fmt: skip
    # A comma-separated text may have blanks around the names.
    wanted = [str(gate).strip() for gate in options.get("gates") or default_gates]
    for gate in wanted:
        if gate not in GATE_IDS:
            near = get_close_matches(gate, GATE_IDS, n=1, cutoff=0.5)
            meant = f"did you mean {near[0]}? " if near else ""
            hint = f"{meant}the gates are {', '.join(GATE_IDS)}"
            problems.append(InputError("gpufleet_gates", f"{gate!r} is not a gate.", hint))
        elif gate not in default_gates:
            problems.append(
                InputError(
                    "gpufleet_gates",
                    f"this release has no check for gate {gate}.",
                    f"choose from {', '.join(default_gates)}",
                )
            )
    return tuple(gate for gate in GATE_IDS if gate in wanted)


def _from_gate(options: Mapping[str, Any], gates: tuple[str, ...], problems: list[BringupError]) -> str:
    """Return the gate at which the run starts, empty for its first."""
    wanted = str(options.get("from_gate") or "")
    if not wanted or wanted in gates:
        return wanted
    name = "gpufleet_from_gate"
    if wanted not in GATE_IDS:
        near = get_close_matches(wanted, GATE_IDS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"the gates are {', '.join(GATE_IDS)}"
        problems.append(InputError(name, f"{wanted!r} is not a gate.", hint))
    else:
        reason = f"gate {wanted} is outside the scope of this run."
        problems.append(InputError(name, reason, f"choose from {', '.join(gates)}, or add it to gpufleet_gates"))
    return ""


def _check_orchestrator(site: Site, problems: list[BringupError]) -> None:
    platform = site.criteria.get("platform", "slurm").strip().lower()
    if site.orchestrator == "slurm" and platform not in ("slurm", "any", ""):
        reason = f"is slurm, and gpufleet_criteria.platform is {platform}, which schedules on Kubernetes."
        problems.append(InputError("gpufleet_orchestrator", reason, "correct one of them"))
    if site.orchestrator == "kubernetes":
        return
    later = [gate.id for gate in GATES if gate.id in site.gates and gate.needs_api and not gate.over_slurm]
    if later:
        hint = f"gpufleet_gates: [{', '.join(gate for gate in site.gates if gate not in later)}]"
        last = max(gate.number for gate in GATES if gate.over_slurm)
        text = f"{site.orchestrator!r}: this release has gates 1 to {last} over Slurm, and not yet {', '.join(later)}: "
        text += "what they run is made for pods."
        problems.append(InputError("gpufleet_orchestrator", text, hint))
    if _JOBS_OF_SLURM in site.gates and not site.settings.get("continuous", {}).get("slurm_dir"):
        reason = f"is not stated, and jobs of gate {_JOBS_OF_SLURM} have their programs and logs there."
        hint = "state a directory that this controller and all hosts see by one path: "
        problems.append(
            InputError("continuous.slurm_dir", reason, f"{hint}gpufleet_set=continuous.slurm_dir=/shared/gpufleet")
        )
    if STACK_GATE in site.gates and site.driver_owner is DriverOwner.OPERATOR:
        reason = "is operator, and there is no GPU operator without Kubernetes."
        problems.append(InputError("gpufleet_driver_owner", reason, "state host, whose driver gate nodes judges"))


def _check_minimum(site: Site, problems: list[BringupError]) -> None:
    left = len(site.in_scope)
    # With too few hosts no repair helps, whichever are quarantined.
    if site.hosts and len(site.hosts) < site.minimum_nodes:
        reason = f"is {site.minimum_nodes}, and the inventory has {len(site.hosts)} hosts."
        problems.append(InputError("gpufleet_minimum_nodes", reason, "lower it, or add the hosts that are missing"))
    elif site.hosts and (left == 0 or left < site.minimum_nodes):
        problems.append(
            InputError(
                "gpufleet_quarantine",
                f"leaves {left} of {len(site.hosts)} hosts; gpufleet_minimum_nodes is {site.minimum_nodes}.",
                "repair nodes and lift their quarantine, or lower the minimum",
            )
        )


def _check_racks(site: Site, capabilities: tuple[str, ...], problems: list[BringupError]) -> None:
    if "facility" not in site.gates or "facility_record" not in capabilities:
        return
    problems.extend(
        InputError(
            f"host {host.name}",
            "has no gpufleet_rack, and gate facility needs it.",
            "set gpufleet_rack to its rack's name",
        )
        for host in site.hosts
        if not host.rack
    )


def _with_capabilities(site: Site, facts: InventoryFacts) -> Site:
    skus = [facts.hardware[host.sku] for host in site.in_scope]
    profile = facts.profiles[site.profile.value]
    words = {*profile.capabilities, *(sku.fabric for sku in skus if sku.fabric != "none")}
    words |= {"nvswitch"} if any(sku.nvswitches for sku in skus) else set()
    words |= {"ibdiagnet"} if "ibdiagnet" in site.settings else set()
    words |= {"fabric_features"} if "fabric-features" in site.settings else set()
    words |= {"switch_health"} if "switch-health" in site.settings else set()
    words |= {True: {"node_autoscaler"}, False: {"fixed_nodes"}, None: set()}[site.adds_nodes]
    words |= {"bmc_address"} if any(host.bmc for host in site.in_scope) else set()
    storage = site.settings.get("storage-integrity", {})
    words |= {"shared_volume"} if storage.get("volume") or storage.get("claim") else set()
    words |= {"pdu_address"} if site.settings.get("pdu-feeds", {}).get("pdus") else set()
    autoscaler = _NO_AUTOSCALER if site.adds_nodes is None else _FIXED_NODES
    missing = {"ibdiagnet": _NO_IBDIAGNET, "node_autoscaler": autoscaler}
    missing |= {"fabric_features": _NO_FEATURES, "switch_health": _NO_SWITCHES}
    missing |= {"bmc_address": _NO_BMC, "pdu_address": _NO_PDU, "shared_volume": _NO_SHARED_VOLUME}
    missing |= dict(profile.missing)
    if site.orchestrator == "slurm":
        words = words - {"kubernetes"} | {"slurm"}
        missing["kubernetes"] = _NO_KUBERNETES
    if len(site.in_scope) > 1:
        words.add("multi_node")
    else:
        missing["multi_node"] = "one host is in scope, so there is nothing between hosts to measure"
    if site.driver_owner is DriverOwner.HOST:
        words.add("host_driver")
    else:
        missing["host_driver"] = "the operator owns the driver and runs its services inside its own pods"
    return replace(site, capabilities=tuple(sorted(words)), missing=missing)
