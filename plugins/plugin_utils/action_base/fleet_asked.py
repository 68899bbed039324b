# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The clusters of the inventory of a fleet, and the command that runs a playbook on each, with its own inventory,
variables and credentials."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible import context

from ..features.fleet.app import DRIFT, REST, FleetPlace, FleetRequest
from ..features.fleet.cluster_files import UNREAD
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..run.start_ansible import ansible_environment
from ..runtime.files import PRIVATE_FILE, write_atomic
from ..runtime.inventory_values import plain
from ..runtime.strict import nearest, nearest_hint
from .arguments import refuse
from .stated_inventory import vaulted

GROUP, ABOUT = "clusters", "gpufleet_cluster"
PLAYS = ("site", "validate", "drift", "continuous", "revalidate", "waves")
# The default order (clusters_run): no fleet needs to have these rings.
USUAL_RINGS = ("lab", "canary")
_PREFIX = "gpufleet_"
# Variables of the run over the fleet, or of one run.
_NOT_PASSED_ON = ("gpufleet_fleet_", "gpufleet_cluster", "gpufleet_rehearsal_")
_OF_ONE_RUN = ("gpufleet_run", "gpufleet_from_gate")
# What would lead to another cluster than the intended one; and what a runner reads from its own playbook.
_NOT_OF_A_CLUSTER = (
    "KUBECONFIG", "SLURM_CONF", "ANSIBLE_INVENTORY", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_CALLBACK_PLUGINS",
    "AWX_ISOLATED_DATA_DIR",
)  # fmt: skip
_KUBERNETES = "K8S_AUTH_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A cluster of the inventory: its description there, and the variables of its runs."""

    about: Mapping[str, Any]
    variables: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.about["name"])

    @property
    def ring(self) -> str:
        """Its ring, empty where it has none."""
        return str(self.about["ring"])


def members_of(
    task_vars: Mapping[str, Any], only: Sequence[str], order: Sequence[str] = USUAL_RINGS
) -> tuple[Member, ...]:
    """Return the clusters of the inventory, by name.

    Args:
        task_vars: the variables of the task.
        only: clusters, rings, or groups of the inventory; empty: all clusters.
        order: the rings in their order.

    Raises:
        InputError: there is no cluster, a limit would have no effect, a ring of the order has no cluster (its clusters
            would be run with the rest), or a variable cannot be passed on.
    """
    groups, hostvars = task_vars.get("groups") or {}, task_vars["hostvars"]
    if task_vars.get("ansible_limit"):
        hint = "leave it away; -e gpufleet_fleet_clusters=NAME chooses clusters, rings or groups"
        raise InputError(f"--limit {task_vars['ansible_limit']}", "does not choose clusters.", hint)
    names = sorted(groups.get(GROUP) or ())
    if not names:
        raise _no_cluster(plain(task_vars.get(UNREAD) or {}))
    rings: dict[str, set[str]] = {}
    for name in names:
        rings.setdefault(str(hostvars[name][ABOUT]["ring"]), set()).add(name)
    problems: list[BringupError] = []
    configured = sorted({*rings} - {""})
    known = (*configured, *USUAL_RINGS, REST)
    for ring in order:
        if ring not in known:
            hint = nearest_hint(ring, [*configured, REST])
            problems.append(InputError(f"gpufleet_fleet_rings {ring}", "is the ring of no cluster.", hint))
    for ring in configured:
        if ring not in (*order, REST) and (near := nearest(ring, {*order} & {*known})):
            hint = f"did you mean '{near[0]}'? else name {ring} in gpufleet_fleet_rings"
            where = f"ring {ring} of {', '.join(sorted(rings[ring]))}"
            problems.append(InputError(where, f"is not in the order of rings ({', '.join(order)}).", hint))
    wanted = _wanted(names, only, groups, rings, problems)
    found = []
    for name in names if not only else sorted(wanted):
        found.append(Member(about=plain(hostvars[name][ABOUT]), variables=_variables(name, hostvars, problems)))
    refuse("the inventory", problems)
    return tuple(found)


def _no_cluster(unread: Mapping[str, Any]) -> InputError:
    """Return why the inventory has no cluster: the problems of its files, which Ansible only shows as warnings."""
    if unread:
        found = (InputError(each["subject"], each["reason"], each["hint"]) for each in unread["problems"])
        return ProblemsError(str(unread["subject"]), tuple(found))
    hint = "name a source of plugin gpufleet.bringup.clusters with -i; see ansible-inventory -i clusters.yml --graph"
    return InputError("the inventory", f"has no cluster (group {GROUP}), or could not be read.", hint)


def _wanted(
    names: Sequence[str],
    only: Sequence[str],
    groups: Mapping[str, Any],
    rings: Mapping[str, set[str]],
    problems: list[BringupError],
) -> set[str]:
    wanted: set[str] = set()
    for word in only:
        found = {word} & {*names} or rings.get(word, set()) or {*names} & {*groups.get(word, ())}
        if not found:
            hint = nearest_hint(word, [*names, *(ring for ring in rings if ring)])
            problems.append(
                InputError(f"gpufleet_fleet_clusters {word}", "is no cluster, ring or group with one.", hint)
            )
        wanted |= found
    return wanted


def _variables(name: str, hostvars: Any, problems: list[BringupError]) -> dict[str, Any]:
    """Return the variables of a cluster's runs, merged by Ansible from its groups and the command line."""
    raw = hostvars.raw_get(name)
    configured = {*hostvars[name][ABOUT]["variables"]}
    names = [key for key in raw if key in configured or _passed_on(key)]
    found: dict[str, Any] = {}
    for key in sorted(names):
        if vaulted(raw[key]):
            hint = "state it in the cluster's own inventory, whose runs decrypt it"
            problems.append(InputError(f"cluster {name}", f"{key} is kept in a vault of the fleet's inventory.", hint))
            continue
        try:
            found[key] = plain(hostvars[name][key])
        except TypeError as error:
            problems.append(
                InputError(f"cluster {name}", f"{key} has a {error}, which is no plain value.", f"correct {key}")
            )
    return found


def _passed_on(name: str) -> bool:
    return name.startswith(_PREFIX) and not name.startswith(_NOT_PASSED_ON) and name not in _OF_ONE_RUN


def asked_of(members: Sequence[Member], play: str, place: FleetPlace) -> dict[str, FleetRequest]:
    """Return the request to each cluster. Its variables, and its inventory if it has no own, are files of the run."""
    return {member.name: _requested(member, play, place) for member in members}


def _requested(member: Member, play: str, place: FleetPlace) -> FleetRequest:
    variables, about = dict(member.variables), member.about
    run_dir = Path(str(variables["gpufleet_run_dir"]))
    report = None
    if play == DRIFT:
        report = Path(str(variables.setdefault("gpufleet_drift_report", str(run_dir / DRIFT))))
    own = str(about["inventory"])
    inventory = Path(own) if own else place.path / f"{member.name}.inventory.json"
    if not own:
        write_atomic(inventory, json.dumps(_inventory(about["hosts"]), indent=1), PRIVATE_FILE)
    configured = place.path / f"{member.name}.vars.json"
    write_atomic(configured, json.dumps(variables, indent=1), PRIVATE_FILE)
    meant = json.dumps([play, own, about["hosts"], about["slurm_conf"], variables], sort_keys=True)
    return FleetRequest(
        cluster=member.name,
        argv=(
            sys.executable, "-m", "ansible", "playbook", f"gpufleet.bringup.{play}", "-i", str(inventory),
            "-e", f"@{configured}", *_options(),
        ),
        env=_environment(str(about["slurm_conf"])),
        run_dir=run_dir,
        digest=hashlib.sha256(meant.encode()).hexdigest(),
        report=report,
    )  # fmt: skip


def _inventory(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inventory of a cluster whose file names its hosts."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    return {"all": {"hosts": {"localhost": local}, "children": {"gpu_nodes": {"hosts": dict(hosts)}}}}


def _environment(slurm_conf: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_OF_A_CLUSTER and not name.startswith(_KUBERNETES)
    }
    own = {"SLURM_CONF": slurm_conf} if slurm_conf else {}
    return {**kept, **ansible_environment(), **own, "ANSIBLE_NOCOLOR": "1", "PYTHONUNBUFFERED": "1"}


def _options() -> Iterator[str]:
    """Yield the options of this command that apply to every cluster: vaults, remote user, forks."""
    configured = context.CLIARGS
    for name in configured.get("vault_ids") or ():
        yield from ("--vault-id", str(name))
    for name in configured.get("vault_password_files") or ():
        yield from ("--vault-password-file", str(name))
    for key, option in (("remote_user", "-u"), ("private_key_file", "--private-key"), ("forks", "-f")):
        if configured.get(key):
            yield from (option, str(configured[key]))
