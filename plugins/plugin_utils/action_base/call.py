# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How ansible-playbook was called: its options and the variables that the user sets."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from jinja2.exceptions import TemplateError

from ..features.inventory.variables import meant, options, renamed, unknown_names
from ..outcome.errors import BringupError, InputError, NotFoundError
from ..outcome.gates import GATE_IDS
from ..outcome.wording import first_of
from ..run.version import COLLECTION, collection_version
from ..runtime.files import COLLECTION_ROOT, REHEARSAL, collection_root
from ..runtime.inventory_values import plain
from ..runtime.strict import nearest, nearest_hint
from .arguments import expected, plain_spec, value_problems

PLAN = "plan"
OLDEST_ANSIBLE = "2.18"
_DEFAULT_INVENTORY = "/etc/ansible/hosts"
# The inventory that a rehearsal writes while it stays up.
_OF_REHEARSAL = ("rehearsal", "inventory.yml")
_START_KEPT = (
    "start one that stays up: make rehearse KEEP=1, or ansible-playbook gpufleet.bringup.rehearse "
    "-e gpufleet_rehearsal_keep=true"
)


def option_problems(
    task_vars: Mapping[str, Any], own_tags: Collection[str], tags: Collection[str]
) -> Iterator[InputError]:
    """Yield tags of --tags and --skip-tags that this playbook does not support.

    Args:
        task_vars: the variables of the task.
        own_tags: tags that the user gave to the whole playbook where they import it.
        tags: tags that this playbook supports.
    """
    requested = [tag for tag in task_vars.get("ansible_run_tags") or () if tag != "all"]
    for tag in requested:
        if tag not in own_tags and tag not in tags:
            near = nearest(tag, [*tags, *GATE_IDS])
            hint = f"did you mean --tags {near[0]}?" if near and near[0] in tags else _scope(near[0] if near else tag)
            yield InputError(f"--tags {tag}", "is no tag of this playbook.", hint)
    if PLAN in requested and len(requested) > 1:
        yield InputError(f"--tags {','.join(requested)}", "asks for a plan and for a run.", f"--tags {PLAN} alone")
    for tag in task_vars.get("ansible_skip_tags") or ():
        yield InputError(
            f"--skip-tags {tag}", "would leave out a part in silence.", f"leave it away; {_scope('', tag)}"
        )


def _scope(only: str, without: str = "") -> str:
    gates = only if only in GATE_IDS else ",".join(gate for gate in GATE_IDS if gate != without)
    return f"-e gpufleet_gates={gates} limits the scope"


def limit_problems(task_vars: Mapping[str, Any]) -> Iterator[InputError]:
    """Yield a problem where --limit leaves out the controller, where everything is decided, or hosts in scope."""
    limit, reached = task_vars.get("ansible_limit"), set(task_vars.get("ansible_play_hosts_all") or ())
    if not limit:
        return
    group = task_vars["hostvars"]["localhost"].get("gpufleet_group") or "gpu_nodes"
    wanted = ["localhost", *(task_vars.get("groups") or {}).get(group, ())]
    left_out = [host for host in wanted if host not in reached]
    if left_out:
        what = "so nothing would be looked at" if "localhost" in left_out else "which would count as silent"
        named = ", ".join(left_out[:3]) + (f" and {len(left_out) - 3} more" if len(left_out) > 3 else "")
        hint = "run without a limit; gpufleet_quarantine sets hosts aside"
        yield InputError(f"--limit {limit}", f"leaves {named} out, {what}.", hint)


def collection_problems(names: Iterable[str]) -> Iterator[BringupError]:
    """Yield each collection that this Ansible does not find, and a rehearsal collection of another release."""
    for name in names:
        root, mine = collection_root(name), collection_version()
        if name != REHEARSAL:
            wanted = f"ansible-galaxy collection install {name}"
        elif (COLLECTION_ROOT / "galaxy.yml").is_file():
            wanted = f"make -C {COLLECTION_ROOT} setup"
        else:
            tarball = f"{name.replace('.', '-')}-{mine}.tar.gz"
            wanted = f"ansible-galaxy collection install {tarball} (make build writes it beside that of {COLLECTION})"
        if root is None:
            words = "is not installed; this playbook works through its modules."
            yield NotFoundError(f"collection {name}", words, wanted)
        elif name == REHEARSAL and (found := collection_version(root)) != mine:
            yield InputError(f"collection {name}", f"is version {found}, and {COLLECTION} is {mine}.", wanted)


def require_ansible(found: str) -> None:
    """Return if this release of ansible-core is new enough.

    Raises:
        InputError: it is older than requires_ansible of meta/runtime.yml.
    """
    # A package of ansible-core.
    from packaging.version import Version

    if Version(found) < Version(OLDEST_ANSIBLE):
        text = f"this is {found}, and gpufleet.bringup needs ansible-core {OLDEST_ANSIBLE} or newer (requires_ansible)."
        raise InputError(sys.executable, text, f"{sys.executable} -m pip install 'ansible-core>={OLDEST_ANSIBLE}'")


def inventory_problems(sources: Sequence[str]) -> Iterator[InputError]:
    """Yield the missing files among the inventories: Ansible goes on without their hosts and variables.

    Args:
        sources: what `-i` names, or what Ansible's configuration does; its own default may be absent.
    """
    for source in sources:
        path = Path(source)
        if "," in source or source == _DEFAULT_INVENTORY or path.exists():
            continue
        if path.parts[-2:] == _OF_REHEARSAL:
            reason = "does not exist: no rehearsal is up there."
            yield InputError(f"-i {_as_typed(path)}", reason, _START_KEPT)
            continue
        near = _misspelled(path)
        hint = (
            f"did you mean -i {_as_typed(near)}?"
            if near
            else f"name the file of your hosts with -i; paths count from {Path.cwd()}"
        )
        yield InputError(f"-i {_as_typed(path)}", "does not exist, so there would be no host.", hint)


def _misspelled(path: Path) -> Path | None:
    """Return the path that was meant where one name of it is misspelled, else None.

    The names are compared, not the paths: `staging/hosts.yml` is no misspelled `production/hosts.yml` but another site.
    """
    # Without its ending, which alone makes any two files look alike.
    beside = {found.stem: found for found in sorted(path.parent.glob("*"), reverse=True)}
    if near := nearest(path.stem, beside):
        return beside[near[0]]
    above = {found.parent.name: found for found in path.parent.parent.glob(f"*/{path.name}")}
    near = [] if path.parent.exists() else nearest(path.parent.name, above)
    return above[near[0]] if near else None


def _as_typed(path: Path) -> str:
    """Return the path relative to the working directory if it is below it: Ansible makes typed paths absolute."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path)


class Stated:
    """The variables that the user sets: on the command line, for hosts and for groups."""

    def __init__(self, task_vars: Mapping[str, Any]) -> None:
        self.hostvars = task_vars["hostvars"]
        manager = getattr(self.hostvars, "_variable_manager", None)
        self.extra = dict(getattr(manager, "extra_vars", None) or {})
        self.groups = {name: list(members) for name, members in (task_vars.get("groups") or {}).items()}
        hosts = dict.fromkeys(["localhost", *(task_vars.get("groups") or {}).get("all", ())])
        # Raw: templates in it stay unresolved.
        self.raw = {host: dict(self.hostvars.raw_get(host)) for host in hosts}

    def problems(self) -> Iterator[BringupError]:
        """Yield every variable that nothing reads, once, and every value that does not fit."""
        for problem in unknown_names("extra variable", self.extra):
            yield self._of_other_type(problem) or problem
        configured: dict[str, list[str]] = {}
        for host, variables in self.raw.items():
            for name in set(variables) - set(self.extra):
                configured.setdefault(name, []).append(host)
        for name, hosts in configured.items():
            yield from unknown_names(f"stated for {self._of_hosts(hosts)}", [name])
        looked: set[tuple[str, str]] = set()
        for host, variables in self.raw.items():
            for name in sorted(set(variables) & set(options())):
                key = (name, repr(variables[name]))
                if key not in looked:
                    looked.add(key)
                    yield from self._value_problems(host, name)

    def _of_hosts(self, hosts: Sequence[str]) -> str:
        """Return the hosts as the inventory names them; localhost has what is set for all."""
        if len(hosts) == len(self.raw):
            return "all hosts"
        group = next((name for name, members in self.groups.items() if set(members) == set(hosts)), "")
        if group and len(hosts) > 1:
            return f"group {group}"
        return f"host {hosts[0]}" if len(hosts) == 1 else f"hosts {first_of(hosts, 3)}"

    def missing(self, one_of: Sequence[str], of_play: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield a problem if none of these variables is set: without one the playbook has nothing to do.

        A rehearsal sets its own as variables of the play (`of_play`).
        """
        if one_of and not any(self._has(name) or of_play.get(name) for name in one_of):
            others = "".join(f", or -e {name}=..." for name in one_of[1:])
            text = f"is not set, and this playbook needs {' or '.join(('it', *one_of[1:]))}."
            yield InputError(one_of[0], text, f"state it: -e {one_of[0]}=...{others}")

    def needed(self, names: Sequence[str]) -> Iterator[InputError]:
        """Yield each of these variables that is not set."""
        for name in names:
            if not self._has(name):
                yield InputError(name, "is not set, and this playbook needs it.", f"-e {name}=...")

    def declared(self, name: str) -> Iterator[BringupError]:
        """Yield a problem if no host has this variable, not even an empty one, or what is wrong with its values."""
        holders = [host for host, variables in self.raw.items() if name and name in variables]
        if name and not holders:
            text = "is declared for no host of the inventory, so there is nothing to bring a host to."
            hint = f"declare it for a host or a group; `{name}: {{}}` takes back what an earlier run left"
            yield InputError(name, text, hint)
        if holders:
            from ..features.converge.declaration import declaration_problems

            yield from declaration_problems(dict(self._resolved(holders, name)))

    def _resolved(self, hosts: Sequence[str], name: str) -> Iterator[tuple[str, Any]]:
        """Yield the value of each host; one that cannot be resolved is among `problems` already."""
        for host in hosts:
            with suppress(AnsibleError, TemplateError, KeyError):
                yield host, plain(self.hostvars[host][name])

    def _has(self, name: str) -> Any:
        return self.extra.get(name) or self.raw["localhost"].get(name)

    def of_choices(self, choices: Mapping[str, Sequence[str]]) -> Iterator[BringupError]:
        """Yield the variables of a playbook whose value is none of the choices."""
        for name, words in choices.items():
            if name in self.raw["localhost"]:
                yield from self._value_problems("localhost", name, {"choices": list(words)})

    def of_places(self, names: Sequence[str]) -> Iterator[NotFoundError]:
        """Yield the variables that name a missing file; an address and a ConfigMap are read later.

        A value that cannot be resolved, or is no text, is another problem.
        """
        for name in names:
            try:
                place = self.hostvars["localhost"][name] if name in self.raw["localhost"] else ""
            except (AnsibleError, TemplateError):
                continue
            if not isinstance(place, str) or not place or "://" in place:
                continue
            path = Path(place).expanduser()
            if not path.exists():
                near = _misspelled(path)
                hint = f"did you mean '{near}'?" if near else f"-e {name}=FILE; paths count from {Path.cwd()}"
                yield NotFoundError(name, f"names '{place}', which does not exist.", hint)

    def of_hosts(self, names: Sequence[str]) -> Iterator[InputError]:
        """Yield each host in these variables that is not in the group of GPU hosts.

        An inventory without such a group is another problem.
        """
        group = str(self._value("gpufleet_group") or "gpu_nodes")
        there = self.groups.get(group) or []
        for name in names:
            value = self._value(name)
            listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
            for host in dict.fromkeys(str(entry).strip() for entry in listed if there):
                if host and host not in there:
                    text = f"names '{host}', which is not in group {group} of the inventory."
                    yield InputError(name, text, nearest_hint(host, there))

    def of_tasks(self, names: Sequence[str]) -> Iterator[NotFoundError]:
        """Yield the variables that name a role, or a file of tasks, that this Ansible does not find.

        A word without a dot or slash is none of both, or a role beside the playbook, and is left to Ansible.
        """
        for name in names:
            value = self._value(name)
            if not isinstance(value, str):
                continue
            if re.search(r"[.]ya?ml$", value):
                path = Path(value).expanduser()
                if not path.exists():
                    near = _misspelled(path)
                    hint = f"did you mean '{near}'?" if near else f"-e {name}=FILE, the whole path of a file of tasks"
                    yield NotFoundError(name, f"names '{value}', which does not exist.", hint)
            elif re.fullmatch(r"\w+\.\w+\.\w+", value):
                collection, _dot, role = value.rpartition(".")
                root = collection_root(collection)
                if root is None:
                    hint = f"ansible-galaxy collection install {collection}, or correct the name"
                    yield NotFoundError(name, f"names the role '{value}', and {collection} is not installed.", hint)
                elif not (root / "roles" / role).is_dir():
                    roles = [f"{collection}.{found.name}" for found in sorted((root / "roles").glob("*/"))]
                    yield NotFoundError(name, f"names '{value}', which is no role.", nearest_hint(value, roles))

    def _value(self, name: str) -> Any:
        """Return the value on the controller, as plain data; None where it has none or cannot be resolved."""
        with suppress(AnsibleError, TemplateError, KeyError):
            return plain(self.hostvars["localhost"][name]) if name in self.raw["localhost"] else None
        return None

    def _value_problems(self, host: str, name: str, spec: Mapping[str, Any] | None = None) -> Iterator[BringupError]:
        try:
            value = self.hostvars[host][name]
        except (AnsibleError, TemplateError, KeyError) as error:
            text = f"cannot be resolved for {host}: {str(error)[:300].rstrip('.')}."
            # Ansible's implicit localhost, where the inventory has none, is of no inventory.
            of_inventory = re.search(r"'(inventory_(?:dir|file))' is undefined", str(error))
            hint = (
                f"add localhost to the inventory (docs/inventory.md): without it localhost has no {of_inventory[1]}"
                if of_inventory and host == "localhost"
                else "correct the template, or state the variable that it names"
            )
            yield InputError(name, text, hint)
            return
        option = spec or plain_spec({name: options()[name]})[name]
        yield from value_problems(name, name, option, {name: value}, typed=bool(spec) or name in self.extra)

    def _of_other_type(self, problem: InputError) -> InputError | None:
        """Return the problem of a misspelled variable whose value the variable that it means would refuse; else
        None."""
        name, near = problem.subject, meant(problem.subject)
        if near not in options():
            return None
        option = plain_spec({near: options()[near]})[near]
        if not [*value_problems(near, near, option, {near: self.extra[name]})]:
            return None
        return InputError(name, problem.reason, f"did you mean {near}, which is {expected(option)}?")

    def warnings(self) -> list[str]:
        """Return a line for every variable that is set by an old name."""
        old = renamed({name for variables in (self.extra, *self.raw.values()) for name in variables})
        return [f"variable {name} is called {new} now; the old name is still read" for name, new in old.items()]


def inventory_warnings(task_vars: Mapping[str, Any]) -> list[str]:
    """Return a line for every inventory directory that has other content than hosts."""
    named = [Path(str(source)) for source in task_vars.get("ansible_inventory_sources") or ()]
    return [
        f"-i {path} is a directory, and Ansible reads every file of it: name its file, -i {path}/hosts.yml"
        for path in named
        if any((path / below).is_dir() for below in ("facility", "recipes", "checks"))
    ]
