# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The layers of preflight: inventory and variables, the recipe that they ask for, controller, contact."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..check.gpu_stack.observe_cluster import asked_permissions
from ..check.gpu_stack.roots import recipe_offers_gpus_by_dra
from ..check.registry import all_checks
from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import connection_from
from ..clients.kube.kinds import NAMESPACES
from ..hardware.sku import load_hardware
from ..outcome.errors import BringupError, NotFoundError, ProblemsError, UnavailableError
from ..outcome.gates import GATE_IDS
from ..recipe.output import documents, write_documents
from ..recipe.request import answer, request_of
from ..runtime.files import write_atomic
from ..runtime.progress import Emit
from ..runtime.recipe_files import recipe_directories, recipe_roots
from ..site.inventory import InventoryFacts, site_from_inventory
from ..site.model import Site
from ..site.profiles import load_profiles
from ..verdict.run import RunRecord, new_run, unproven_before, with_site
from .pending import write_pending_suites
from .resume import resume_layer
from .run import Run, needs_recipe
from .site_state import CLUSTER

Layer = Callable[[Run, dict[str, Any], dict[str, Any], Emit], dict[str, Any]]

# Python package (as imported) to what it is for; all are needed by every run.
_PACKAGES = {
    "cattrs": "reading and writing results",
    "yaml": "recipe data",
    "junitparser": "JUnit files",
    "sqlalchemy": "the history of runs",
}


def gates_of_release() -> tuple[str, ...]:
    """Return the gates that this release has checks for."""
    gates = {check.spec.gate for check in all_checks()}
    return tuple(gate for gate in GATE_IDS if gate in gates)


def inventory_layer(run: Run, options: dict[str, Any], task_vars: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Check inventory and variables without any contact, and write site.json and hardware.json.

    Raises:
        ProblemsError: everything that is wrong, in one list.
    """
    extra = options["recipe_data"]
    hardware = load_hardware(recipe_directories("hardware", extra))
    site = site_from_inventory(
        InventoryFacts(
            group=options["group"],
            groups=tuple(task_vars.get("groups", {})),
            hosts=_host_variables(options["group"], task_vars),
            options=options,
            default_gates=gates_of_release(),
            profiles=load_profiles(recipe_roots(extra)),
            known_settings=(*GATE_IDS, *(check.spec.id for check in all_checks())),
            hardware=hardware,
        )
    )
    run.save_site(site)
    run.save_hardware({host.sku: hardware[host.sku] for host in site.hosts})
    run.save_record(_scoped(run, site))
    write_pending_suites(run)
    emit(f"inventory: {len(site.hosts)} hosts, {len(site.quarantined)} quarantined; in scope: {', '.join(site.gates)}")
    outside = [gate for gate in GATE_IDS if gate not in site.gates]
    if outside:
        emit(f"outside the scope of this run, so never called accepted: {', '.join(outside)}")
    missing = unproven_before(site.gates)
    if missing:
        emit(
            f"not proven by this run, though its gates depend on it, so a fault there shows later: {', '.join(missing)}"
        )
    hosts = [host.name for host in site.in_scope]
    return {"changed": False, "hosts": hosts, "gates": list(site.gates), "before": list(site.before_from_gate)}


def _scoped(run: Run, site: Site) -> RunRecord:
    old = run.record
    fresh = new_run(old.run_id, site.name, old.started, site.gates, rehearsal=site.rehearsal)
    fresh = replace(fresh, from_gate=site.from_gate)
    return with_site(replace(fresh, updated=old.updated, versions=old.versions), site)


def _host_variables(group: str, task_vars: dict[str, Any]) -> dict[str, Mapping[str, Any]]:
    hostvars = task_vars["hostvars"]
    wanted = ("gpufleet_sku", "gpufleet_rack", "gpufleet_node_name")
    names = task_vars.get("groups", {}).get(group, [])
    return {name: {key: hostvars[name].get(key) for key in wanted} for name in names}


def recipe_layer(run: Run, options: dict[str, Any], task_vars: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Resolve the recipe of the site into the run directory, so that a wrong one is found before anything is touched.

    Raises:
        BringupError: wrong criteria, an unsupported combination, or wrong recipe data.
    """
    del task_vars
    if not run.needs_recipe:
        return {"changed": False}
    stated = {"criteria": run.site.criteria, "recipe_data": options["recipe_data"], "overrides": options["overrides"]}
    answered = answer(request_of(stated))
    write_documents(documents(answered.result, answered.catalogue, {"run_dir": str(run.path)}), check_mode=False)
    run.reload()
    _note_dra(run)
    # Components are known now, and whether GPUs are given out by claim.
    write_pending_suites(run)
    emit(f"recipe: {len(answered.result.order)} components in order {', '.join(answered.result.order)}"[:190])
    return {"changed": False, "warnings": list(answered.warnings)}


def _note_dra(run: Run) -> None:
    """Let the DRA checks be declared only where the recipe gives out GPUs by claim; the site says why not elsewhere."""
    site = run.site
    if recipe_offers_gpus_by_dra(run.recipe or {}):
        site = replace(site, capabilities=tuple(sorted({*site.capabilities, "dra"})))
    else:
        reason = "the recipe's DRA driver gives out no GPUs; the device plugin does"
        site = replace(site, missing=site.missing | {"dra": reason})
    run.save_site(site)


def controller_layer(run: Run, options: dict[str, Any], task_vars: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Check what the controller needs for the gates in scope: Python packages and programs.

    Raises:
        ProblemsError: everything that is missing, in one list.
    """
    del task_vars
    problems: list[BringupError] = [
        NotFoundError(f"Python package {name}", f"is not installed; it is needed for {use}.", f"pip install {name}")
        for name, use in _packages(run.site).items()
        if importlib.util.find_spec(name) is None
    ]
    programs = _programs(run.site, options["helm"])
    problems.extend(
        NotFoundError(f"program {name}", f"is not on PATH; gate {gate} needs it.", hint)
        for name, (gate, hint) in programs.items()
        if shutil.which(name) is None
    )
    if problems:
        raise ProblemsError("controller", tuple(problems))
    emit(f"controller: packages and programs are there ({', '.join(programs) or 'no program needed'})")
    return {"changed": False}


def _packages(site: Site) -> dict[str, str]:
    return _PACKAGES | ({"kubernetes": "the API server"} if _needs_api(site) else {})


def _programs(site: Site, helm: str) -> dict[str, tuple[str, str]]:
    programs: dict[str, tuple[str, str]] = {}
    if "facility" in site.gates and "facility_record" in site.capabilities:
        programs["ssh-keygen"] = ("facility", "install the OpenSSH client")
    if needs_recipe(site):
        programs[helm] = ("gpu_stack", "install Helm 3.14 or newer and put it on PATH, or name it in gpufleet_helm")
    return programs


def _needs_api(site: Site) -> bool:
    with_api = GATE_IDS[GATE_IDS.index("gpu_stack") :]
    return "kubernetes" in site.capabilities and any(gate in site.gates for gate in with_api)


def contact_layer(run: Run, options: dict[str, Any], task_vars: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Check that hosts and API server answer. Some silent hosts are data for the gates; all silent is a problem.

    Raises:
        ProblemsError: no host answers with the rights that the probes need, or the API server does not.
    """
    site = run.site
    problems: list[BringupError] = []
    if "nodes" in site.gates:
        _check_hosts(site, task_vars, problems, emit)
    if _needs_api(site):
        _check_api(run, options, problems, emit)
    if problems:
        raise ProblemsError("contact", tuple(problems))
    return {"changed": False}


def _check_hosts(site: Site, task_vars: dict[str, Any], problems: list[BringupError], emit: Emit) -> None:
    trouble: dict[str, str] = {}
    for host in site.in_scope:
        found = task_vars["hostvars"][host.name].get("gpufleet_contact") or {
            "reached": False,
            "reason": "was not asked",
        }
        if not (found.get("reached") and found.get("privileged")):
            trouble[host.name] = str(found.get("reason") or "does not answer")
    for name, reason in list(trouble.items())[:10]:
        emit(f"contact: {name}: {reason}"[:199])
    emit(f"contact: {len(site.in_scope) - len(trouble)} of {len(site.in_scope)} hosts answer as root")
    if len(trouble) == len(site.in_scope):
        name, reason = next(iter(trouble.items()))
        problems.append(
            UnavailableError(
                "hosts",
                f"none of {len(trouble)} answers as root; {name}: {reason}.",
                f"try: ansible {name} -b -m raw -a 'id -u'",
            )
        )


def _uid(cluster: Cluster) -> str:
    """Return what tells this cluster from one that was made anew; empty where this user may not read it."""
    try:
        found = cluster.find(NAMESPACES, "kube-system")
    except BringupError:
        return ""
    return str(((found or {}).get("metadata") or {}).get("uid") or "")


def _check_api(run: Run, options: dict[str, Any], problems: list[BringupError], emit: Emit) -> None:
    try:
        with Cluster(connection_from(options)) as cluster:
            version = cluster.version()
            emit(f"contact: API server answers with version {version}")
            write_atomic(run.path / CLUSTER, json.dumps({"version": version, "uid": _uid(cluster)}) + "\n")
            problems.extend(_denied(cluster))
    except BringupError as error:
        problems.append(error)


def _denied(cluster: Cluster) -> list[BringupError]:
    """Return one problem per thing that the gates do and this user may not (SelfSubjectAccessReview)."""
    hint = "use a kubeconfig whose user may, or bind a ClusterRole that allows it"
    return [
        UnavailableError(
            "API server", f"this user may not {asked.text}{f' ({asked.reason})' if asked.reason else ''}.", hint
        )
        for asked in asked_permissions(cluster)
        if not asked.allowed
    ]


LAYERS: dict[str, Layer] = {
    "inventory": inventory_layer,
    "recipe": recipe_layer,
    "controller": controller_layer,
    "contact": contact_layer,
    "resume": resume_layer,
}
