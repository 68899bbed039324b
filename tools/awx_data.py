# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""extensions/awx/templates.yml and extensions/awx/project/: a job template for each playbook that AWX may run, whose
survey asks for the variables that the playbook reads, and the project that these templates take their playbooks from.

Names, types and words of a question are those of the argument specs of roles and of the documentation of modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.variables import options, role_options
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.version import COLLECTION
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents

from .rbac_docs import Indented

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "extensions/awx"
_HEAD = """# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Generated from playbooks, argument specs and modules (make awx); a test compares the two. docs/awx.md has more.
---
"""
# Which starts a cluster of its own, prints for a terminal, or makes files for one.
_NOT_FOR_AWX = re.compile(r"rehearse|awx_setup|recipe$|facility_record$|preflight$")
_VARIABLE = re.compile(r"\bgpufleet_[a-z0-9_]+")
_IMPORTED = re.compile(r"import_playbook: (\w+)\.yml")
_ROLE = re.compile(rf"(?:name|role): {re.escape(COLLECTION)}\.(\w+)$", re.MULTILINE)
# A survey asks what a person decides at a launch. What does not change from one launch to the next is the inventory's:
# what the site is, where things lie, how long tools may take, and decisions that are reviewed. An unanswered question
# of AWX is an empty text, which would replace what the inventory says of them.
_OF_THE_INVENTORY = re.compile(
    "gpufleet_("
    "scope|hosts|forced_settings|default_criteria|notes|waivers|acceptances|quarantine|converge|converge_labels|sku|rack|"
    "component|site_name|profile|group|driver_owner|orchestrator|wave_orchestrator|fabric_host|run_mode|store|store_url|"
    "kubeconfig|context|helm|recipe_data|check_dirs|baseline_rehearsal|history_rehearsal|chart_mirror|"
    "snapshot_provider|snapshot_image|snapshot_runtime_class|snapshot_tolerations|"
    "(nodes|fabric)_.*|.*_scontrol|.*_parallel|.*_kernel_root|rma_contact)"
)
# What a bring-up alone is asked: the others set it by themselves.
_OF_A_BRING_UP = re.compile("gpufleet_(gates|from_gate|stale|pass_days|look_on|disturb|minimum_nodes)")
_KINDS = {"str", "list", "int", "float", "bool", "raw"}
# Of a saved run; the others make one, and role preflight answers with its directory.
_OF_A_RUN = ("ai_conformance", "baseline", "judge", "remove", "rma", "rollback", "snapshot")
# In a workflow the run of the bring-up, whatever ran after it.
_SAVED_RUN = "{{ gpufleet_brought_up | default(gpufleet_run_dir ~ '/latest') }}"
_TYPES = {"int": "integer", "float": "float"}
_LONGEST = 1024


class _Verbatim(str):
    """A template that AWX resolves when a job starts."""


class _Dumper(Indented):
    pass


_Dumper.add_representer(_Verbatim, lambda dumper, text: dumper.represent_scalar("!unsafe", text, style="'"))


def playbooks() -> list[str]:
    """Return the names of the playbooks that have a job template."""
    names = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
    return [name for name in names if not _NOT_FOR_AWX.match(name)]


def files() -> dict[str, str]:
    """Return the text of each file that is generated, by its path."""
    templates = {"controller_templates": list(_templates())}
    made = {f"{FOLDER}/templates.yml": _HEAD + yaml.dump(templates, Dumper=_Dumper, sort_keys=False, width=140)}
    for name in playbooks():
        play = [{"name": _summary(name), "ansible.builtin.import_playbook": f"{COLLECTION}.{name}"}]
        made[f"{FOLDER}/project/{name}.yml"] = _HEAD + yaml.dump(play, Dumper=_Dumper, sort_keys=False, width=1000)
    return made


def _templates() -> Iterator[dict[str, Any]]:
    for name in playbooks():
        template = {
            "name": f"gpufleet {name}",
            "description": _summary(name),
            "job_type": "run",
            "organization": "{{ gpufleet_awx_organization }}",
            "inventory": "{{ gpufleet_awx_inventory }}",
            "project": "{{ gpufleet_awx_project }}",
            "execution_environment": "{{ gpufleet_awx_execution_environment }}",
            "playbook": f"{name}.yml",
            # A slice sees a part of the hosts, and a second run at once is refused anyway.
            "job_slice_count": 1,
            "allow_simultaneous": False,
            # Check mode, where a person looks first.
            "ask_job_type_on_launch": True,
            "survey_enabled": True,
            "survey_spec": {"name": "", "description": "", "spec": [*questions(name)]},
        }
        if name in _OF_A_RUN:
            template["extra_vars"] = {"gpufleet_run": _Verbatim(_SAVED_RUN)}
        yield template
        if name == "site":
            plan = "Prints what a bring-up would do, and starts nothing."
            yield {**template, "name": "gpufleet plan", "description": plan, "job_tags": "plan"}


def _text(name: str) -> str:
    return (ROOT / "playbooks" / f"{name}.yml").read_text("utf-8")


def _summary(name: str) -> str:
    """Return the first sentence of a playbook's head."""
    head = re.search(r"^---\n((?:# .*\n)+)", _text(name), re.MULTILINE)
    words = " ".join(line.removeprefix("# ") for line in head[1].splitlines()) if head else name
    words = re.sub(r" \([^)]*\)", "", words)
    return re.split(r"[.:;](?: |$)", words)[0] + "."


def questions(name: str) -> Iterator[dict[str, Any]]:
    """Yield the questions of a survey, those that need an answer first."""
    asked = [_question(variable, option) for variable, option in _variables(name).items()]
    yield from sorted((each for each in asked if each), key=lambda each: not each["required"])


def _variables(name: str) -> dict[str, Mapping[str, Any]]:
    """Return what is documented of each variable that a playbook, what it imports and its roles read."""
    code = re.sub(r"^\s*#.*$", "", _text(name), flags=re.MULTILINE)
    found = _of_modules(name)
    for role in dict.fromkeys(_ROLE.findall(code)):
        found = {**role_options(role), **found}
    found |= {variable: options()[variable] for variable in _VARIABLE.findall(code) if variable in options()}
    for other in _IMPORTED.findall(code):
        found |= {variable: option for variable, option in _variables(other).items() if variable not in found}
    return {
        variable: max(option, options().get(variable, {}), key=len)
        for variable, option in found.items()
        if variable.startswith("gpufleet_")
        and not _OF_THE_INVENTORY.fullmatch(variable)
        and (name == "site" or not _OF_A_BRING_UP.fullmatch(variable))
    }


def _of_modules(name: str) -> dict[str, Mapping[str, Any]]:
    """Return the options of modules that a playbook fills from one variable each, by that variable."""
    found: dict[str, Mapping[str, Any]] = {}
    (plays,) = documents(_text(name))
    for play in plays:
        for task in play.get("tasks", ()):
            for key, given in task.items():
                module = key.removeprefix(f"{COLLECTION}.")
                if module == key or not isinstance(given, dict):
                    continue
                documented = _module_options(module)
                for option, value in given.items():
                    named = set(_VARIABLE.findall(str(value)))
                    if len(named) == 1 and option in documented:
                        # Whether a module needs it depends on what the playbook is asked to do.
                        found.setdefault(named.pop(), {**documented[option], "required": False})
    return found


@cache
def _module_options(module: str) -> Mapping[str, Any]:
    """Return the documented options of a module of ours, with those of the fragments that it extends."""
    document = _documentation(f"modules/{module}")
    found = dict(document.get("options") or {})
    for fragment in document.get("extends_documentation_fragment", ()):
        found |= _documentation(fragment.replace(f"{COLLECTION}.", "doc_fragments/")).get("options") or {}
    return found


def _documentation(plugin: str) -> Mapping[str, Any]:
    text = re.search(
        r'DOCUMENTATION = r"""\n(.*?)"""', (ROOT / "plugins" / f"{plugin}.py").read_text("utf-8"), re.DOTALL
    )
    return documents(text[1])[0] if text else {}


def _question(variable: str, option: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a question as AWX wants it. None has a default: it would replace what the inventory says."""
    if option.get("elements") == "dict" or option.get("type", "str") not in _KINDS:
        return None
    words = option["description"]
    sentences = _plain(" ".join([words] if isinstance(words, str) else words))
    first, _sep, rest = sentences.partition(". ")
    choices, kind = option.get("choices"), option.get("type", "str")
    if kind == "bool":
        choices = ["true", "false"]
    form = "multiplechoice" if choices else _TYPES.get(kind, "text")
    if choices and kind == "list":
        form = "multiselect"
    asked: dict[str, Any] = {
        "question_name": first.removesuffix("."),
        "question_description": f"{rest} Several are separated by commas.".strip()
        if form == "text" and kind == "list"
        else rest,
        "variable": variable,
        "type": form,
        "required": bool(option.get("required")),
    }
    if choices:
        asked["choices"] = [str(choice) for choice in choices]
    if form == "text":
        asked |= {"min": 0, "max": _LONGEST}
    return asked


def _plain(text: str) -> str:
    """Return documentation without the marks of Ansible's pages: V(x), C(x), O(x)."""
    return re.sub(r"\b[A-Z]\(([^()]*)\)", r"\1", text).strip()
