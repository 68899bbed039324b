# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Input and output of a rehearsal: playbooks, commands to continue with it, programs that it needs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware, sku_or_error
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import StatedInventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import nearest

from ..faults.catalogue import load_catalogue, unknown_faults
from ..model.spec import PlannedNode, Shape, numbered_nodes, rack_name
from ..places import COLLECTION_ROOT, DATA
from ..substitution.replacements import StatedSite
from ..worlds.catalogue import load_worlds, world_or_error

# Input of a rehearsal, and its result.


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRequest:
    """What to rehearse.

    Args:
        directory: the rehearsal's own directory.
        cache: directory of built programs.
        collection: root of gpufleet.bringup; in a checkout `make setup-full` installs its sets there.
        nodes: the hosts to simulate.
        faults: fault ids or files.
        keep: leave it up after the controller's end.
        recipe_data: recipe directories of the site, beside the collection's own.
        shapes: differences of the healthy cluster from the one that is derived from its hosts.
        plan: whether the site keeps a cabling plan.
        site: the rest of the site's configuration.
        full: really run what can run without the hardware, see `full_sets`.
        bmcs: names of the hosts whose BMC is simulated.
        pdus: whether the PDUs of their racks are, too.
        audit: whether the API server writes an audit log, `audit.log` in the directory.
        settings: settings of the reference site, below those that the rehearsal replaces.
        notes: notes before those about replacements.
        inventory: the rest of the rehearsal's inventory.
        dra: whether GPUs may be allocated by claims; false refuses faults of claims.
    """

    directory: Path
    cache: Path
    collection: Path
    nodes: tuple[PlannedNode, ...]
    site_name: str = "rehearsal"
    faults: tuple[str, ...] = ()
    keep: bool = False
    recipe_data: tuple[Path, ...] = ()
    full: bool = False
    shapes: tuple[Shape, ...] = ()
    plan: bool = True
    site: StatedSite = field(default_factory=StatedSite)
    bmcs: tuple[str, ...] = ()
    pdus: bool = False
    audit: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inventory: StatedInventory = field(default_factory=StatedInventory)
    dra: bool = True

    @property
    def recipes(self) -> tuple[Path, ...]:
        """All directories of recipe data, the collection's own first."""
        return (RECIPES, *self.recipe_data)

    @property
    def hardware(self) -> tuple[Path, ...]:
        """Directories with the site's SKUs. A directory of recipe data may have none, but it has to exist."""
        found = ((path, path / "hardware") for path in self.recipe_data)
        return tuple(skus for path, skus in found if skus.is_dir() or not path.is_dir())

    @property
    def full_sets(self) -> Path | None:
        """Where `make setup-full` installs the programs that then really run, one directory per set."""
        return self.collection / ".cache" if self.full else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A running rehearsal.

    Args:
        settings: replaced settings in a run on it, for `gpufleet_forced_settings`.
        notes: replacements, one line each, for `gpufleet_notes`.
        programs: path of every program by name.
        bmcs: URL of every simulated BMC by host.
    """

    directory: Path
    kubeconfig: Path
    chart_mirror: Path
    nodes: tuple[PlannedNode, ...]
    programs: dict[str, str]
    version: str
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bmcs: dict[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> tuple[PlannedNode, ...]:
        """Those of its nodes that the inventory has."""
        return tuple(node for node in self.nodes if not node.outside)


def planned_nodes(hosts: list[dict[str, Any]], count: int, sku: str) -> tuple[PlannedNode, ...]:
    """Return the hosts to simulate: those of an inventory, or `count` numbered ones if it has none.

    Args:
        hosts: `name`, `sku`, `rack` and `hcas` of each; an empty `sku` or `rack` gets the default.

    Raises:
        InputError: the count is less than 1 or a host has no name.
    """
    if not hosts:
        return numbered_nodes(count, sku)
    nodes = []
    for index, host in enumerate(hosts):
        name = str(host.get("name") or "")
        if not name:
            raise InputError("rehearsal hosts", f"entry {index + 1} has no name.", "give each host name, sku and rack")
        hcas = tuple(str(hca) for hca in host.get("hcas") or ())
        rack = str(host.get("rack") or rack_name(index))
        nodes.append(PlannedNode(name=name, sku=str(host.get("sku") or sku), rack=rack, hcas=hcas))
    return tuple(nodes)


# Playbooks that can be rehearsed from start to end, beside a bring-up.

LIST = "list"
SITE = "site"
_PLAY = "gpufleet_rehearsal_play"
_ALONE = {
    "converge": "a simulated host has no package repositories; molecule does it with containers (docs/converge.md)",
    "rollback": "it needs two recipes that passed; keep a rehearsal, and run site twice on its inventory",
    "rma": "keep a rehearsal that has a fault, and run it on its inventory",
}


def known_plays(playbooks: Path = COLLECTION_ROOT / "playbooks" / "verbs") -> dict[str, str]:
    """Return every verb that can be rehearsed, with its description."""
    found = {SITE: "Brings a site up, gate by gate (the default)."}
    for path in sorted(playbooks.glob("*.yml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[path.stem] = lines[lines.index("---") + 1].removeprefix("# ")
    return found


def plays_table() -> str:
    """Return the verbs that can be rehearsed as text for a terminal."""
    rows = known_plays()
    width = max(map(len, rows))
    return "\n".join(
        [f"{name.ljust(width)}  {text}" for name, text in rows.items()] + ["", f"{_PLAY} (make: PLAY=): name"]
    )


def refuse_unknown_play(name: str) -> None:
    """Raise NotFoundError for a verb that cannot be rehearsed. The message lists those that can."""
    known = known_plays()
    if name in known:
        return
    if name in _ALONE:
        raise NotFoundError(f"{_PLAY} {name!r}", f"cannot be rehearsed from start to end: {_ALONE[name]}.")
    near = f"did you mean {nearest(name, known)[0]!r}? " if nearest(name, known) else ""
    raise NotFoundError(f"{_PLAY} {name!r}", "is nothing that can be rehearsed.", f"{near}known: {', '.join(known)}")


def request_problems(
    options: Mapping[str, Any], *, hosts: Collection[str], extra: Mapping[str, Any]
) -> list[BringupError]:
    """Return what is wrong with the names in a rehearsal's options, before anything is built or started.

    Args:
        options: the options of `rehearsal_start`.
        hosts: names of the simulated hosts of the inventory.
        extra: variables of the command line.
    """
    problems: list[BringupError] = []
    play, world = str(options["play"]), str(options["world"])
    _noted(problems, lambda: refuse_unknown_play(play))
    scope = [name for name in ("gpufleet_gates", "gpufleet_from_gate") if name in extra]
    if play != SITE and scope and not problems:
        reason = f"is the scope of a bring-up, and gpufleet_rehearsal_play={play} has a scope of its own."
        problems.append(InputError(scope[0], reason, "leave one of the two out"))
    names = set(hosts)
    if world:
        _noted(problems, lambda: world_or_error(load_worlds(DATA), world))
    if not hosts:
        _noted(problems, lambda: names.update(node.name for node in numbered_nodes(options["nodes"], "")))
        own = [path / "hardware" for text in options["recipe_data"] if (path := Path(text).expanduser()).is_dir()]
        known = load_hardware([RECIPES / "hardware", *(path for path in own if path.is_dir())])
        _noted(problems, lambda: sku_or_error(known, str(options["sku"])))
    problems += unknown_faults([str(fault) for fault in options["faults"]], load_catalogue(), () if world else names)
    return problems


# Connection of the simulated hosts.
CONNECTION = "gpufleet.rehearsal.rehearsal"
# Set by a rehearsal. A fact cannot override an extra variable, so they may not be extra variables.
_SETS = ("gpufleet_forced_settings", "gpufleet_notes")
_CONNECTION = ("ansible_connection", CONNECTION)


def own_variables(extra: Mapping[str, Any]) -> list[BringupError]:
    """Return the command line variables that would override those that a rehearsal sets."""
    wrong = {name: "is an extra variable, and a rehearsal sets it itself." for name in _SETS if name in extra}
    if extra.get(_CONNECTION[0], _CONNECTION[1]) != _CONNECTION[1]:
        wrong[_CONNECTION[0]] = "is an extra variable, and a rehearsal must not touch a machine."
    return [InputError(name, reason, "leave it out") for name, reason in wrong.items()]


def _noted(problems: list[BringupError], look: Callable[[], object]) -> None:
    try:
        look()
    except BringupError as error:
        problems.append(error)


# Commands for a kept rehearsal, as a person can type them where it was started.

INVENTORY_FILE = "inventory.yml"


def kept_lines(directory: Path, kubeconfig: str) -> list[str]:
    """Return the lines for a person who continues with a kept rehearsal."""
    inventory = shown(directory / INVENTORY_FILE)
    rows = [
        ("site", "-i", inventory),
        ("validate", "-i", inventory),
        ("continuous", "-i", inventory, "--check"),
        ("snapshot", "-i", inventory, "-e", "gpufleet_snapshot=snapshot.json", "-e", "gpufleet_run=.run/latest"),
    ]
    return [
        f"the rehearsal stays up: export KUBECONFIG={shlex.quote(kubeconfig)}",
        "go on with it:",
        *(f"  {playbook_command(*row)}" for row in rows),
        f"  {playbook_command('rehearse_faults', '-e', 'gpufleet_rehearsal_lift=all', *_elsewhere(directory))}",
        f"stop it: {stop_command(directory)}",
    ]


def kept_command(directory: Path, play: str) -> str:
    """Return the command that runs the rehearsed playbook on the kept cluster again."""
    return playbook_command(play, "-i", shown(directory / INVENTORY_FILE))


def stop_command(directory: Path) -> str:
    """Return the command that stops the rehearsal in a directory."""
    return playbook_command("rehearse_stop", *_elsewhere(directory))


def _elsewhere(directory: Path) -> list[str]:
    usual = Path.cwd() / ".run" / "rehearsal" == directory
    return [] if usual else ["-e", f"gpufleet_rehearsal_dir={directory}"]


def playbook_command(name: str, *words: str) -> str:
    """Return the command that runs a playbook of the collection with this Ansible."""
    return " ".join([ansible_playbook(), f"gpufleet.bringup.{name}", *(shlex.quote(word) for word in words)])


def ansible_playbook() -> str:
    """Return the ansible-playbook of this Python, as a person can type it here."""
    # Not the target of the link: only the link of a virtual environment finds its packages.
    program = Path(sys.executable).parent / "ansible-playbook"
    return shlex.quote(shown(program)) if program.is_file() else "ansible-playbook"


def shown(path: Path) -> str:
    """Return a path as it is typed here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


# System programs that a rehearsal runs. They are checked before anything is built, and reported with their packages.

# Program: package of Debian and Ubuntu, package of RHEL. Without built programs, Python packages and programs of every
# Linux system; `tools/setup` installs the same.
PROGRAMS: Mapping[str, tuple[str, str]] = {
    "ssh-keygen": ("openssh-client", "openssh-clients"),
    "flock": ("util-linux", "util-linux"),
    "awk": ("mawk", "gawk"),
}


def refuse_missing_programs() -> None:
    """Check that every program is on PATH.

    Raises:
        NotFoundError: some are missing; the hint is the command that installs them all.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        debian, rhel = (" ".join(sorted({PROGRAMS[name][index] for name in missing})) for index in (0, 1))
        reason = "not found on PATH, and the rehearsal runs them: nothing was built or started."
        hint = f"as root: apt-get install {debian} (RHEL: dnf install {rhel})"
        raise NotFoundError(f"programs {', '.join(missing)}", reason, hint)
