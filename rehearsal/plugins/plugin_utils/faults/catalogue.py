# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fault catalogue: faults, the check that finds each, the clusters that can show it, and the choice of FAULTS=."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
    ProblemsError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import first_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES, gate_files
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import (
    decode,
    nearest,
    nearest_hint,
    read_yaml,
)

from ..model.patch import subject_names
from ..model.spec import Change, Fault, SubjectWord
from ..model.values import ClusterModel

# The fault catalogue, recipes/gates/<gate>/faults.yaml.


# The variable behind FAULTS= or SET= of `make`, by target.
FAULTS_VARIABLE = "gpufleet_rehearsal_faults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The outcome that a fault must lead to: the result of `check` of `gate` for the fault's subject or its node."""

    gate: str
    check: str
    cause: str
    status: Literal["failed", "other", "passed"] = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDefinition:
    """One entry of the catalogue.

    - `earlier`: outcome in an earlier gate, if that is in scope.
    - `needs`: words that a site must offer for the fault (see worlds.catalogue.offers), beside the gate that finds it.
    """

    id: str
    kind: SubjectWord
    description: str
    expect: Expected
    patch: tuple[Change, ...]
    earlier: Expected | None = None
    needs: tuple[str, ...] = ()

    def fits(self, offered: frozenset[str]) -> bool:
        """Return whether a site that offers these words can have the fault."""
        return {self.expect.gate, *self.needs} <= offered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Catalogue:
    faults: tuple[FaultDefinition, ...]


def load_catalogue(recipes: Path = RECIPES) -> dict[str, FaultDefinition]:
    """Return every fault by id, in the order of the gates and of their entries.

    Args:
        recipes: the collection's recipes directory.

    Raises:
        InputError: there is no file, one cannot be read, an entry is not valid, or an id is there twice.
    """
    path = recipes / "gates"
    files = gate_files("faults.yaml", recipes)
    if not files:
        raise InputError(str(path), "holds no faults (<gate>/faults.yaml).", "install the collection again")
    entries = [fault for file in files for fault in decode(_Catalogue, {"faults": read_yaml(file)}, str(file)).faults]
    found = {entry.id: entry for entry in entries}
    if len(found) != len(entries):
        twice = sorted({entry.id for entry in entries if sum(other.id == entry.id for other in entries) > 1})
        raise InputError(str(path), f"ids given twice: {', '.join(twice)}.", "give every fault an id of its own")
    return found


def catalogue_table(catalogue: dict[str, FaultDefinition]) -> str:
    """Return the catalogue as text for a terminal: id, kind of subject, the check that finds it, description."""
    rows = [("FAULT", "HITS", "FOUND BY", "WHAT IS BROKEN")]
    for fault in catalogue.values():
        found_by = f"{fault.expect.gate}/{fault.expect.check}"
        rows.append(
            (fault.id, fault.kind, found_by if fault.expect.status != "passed" else "nobody", fault.description)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(row[n].ljust(widths[n]) for n in range(3)), row[3]]) for row in rows]
    usage = f"{FAULTS_VARIABLE} (make: FAULTS=): id | id@gpu03 | id@gpu03/gpu5 | id,id@rack-a1 | file.yaml"
    return "\n".join([*lines, "", usage, ""])


def catalogue_page(catalogue: dict[str, FaultDefinition]) -> str:
    """Return docs/reference/faults.md."""
    lines = [
        "<!-- Generated from recipes/gates/<gate>/faults.yaml (make reference). -->",
        "# Faults of a rehearsal",
        "",
        "`make rehearse FAULTS=<what>` breaks the simulated hardware before the gates look at it. A fault without a",
        "subject hits one at random. `FAULTS=list` prints this list. While a rehearsal is up,",
        "`make rehearse-faults` sets and lifts faults ([rehearsal.md](../rehearsal.md)).",
        "",
        "| `FAULTS=` | breaks |",
        "| --- | --- |",
        "| `gpu-lost` | one GPU, drawn at random |",
        "| `gpu-lost@gpu03` | one GPU of that node |",
        "| `gpu-lost@gpu03/gpu5` | that GPU |",
        "| `gpu-lost,hca-down@gpu01` | both |",
        "| `my-faults.yaml` | every entry of a file: `id`, `kind`, `subject` and `patch` as in the cluster model |",
        "",
        "| fault | hits | what is broken | found by | as | cause |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for fault in catalogue.values():
        expect = fault.expect
        found = f"`{expect.gate}` / `{expect.check}`" if expect.status != "passed" else "nobody: it must pass"
        cause = f"`{expect.cause}`" if expect.cause else ""
        lines.append(f"| `{fault.id}` | {fault.kind} | {fault.description} | {found} | {expect.status} | {cause} |")
    return "\n".join([*lines, ""])


# From `FAULTS=` to faults: ids of the catalogue, with or without a subject, or a file of the user.

LIST = "list"
_SHOWN = 4
# Kinds of subjects whose names begin with that of a host.
_OF_HOSTS = ("node", "gpu", "hca")
_LISTS = "playbook rehearse_faults prints all"


@dataclass(frozen=True, slots=True, kw_only=True)
class _FaultFile:
    faults: tuple[Fault, ...]


def choose_faults(
    wanted: str | Sequence[str],
    model: ClusterModel,
    catalogue: Mapping[str, FaultDefinition],
    seed: int | None = None,
) -> tuple[Fault, ...]:
    """Return the requested faults, each with its subject.

    Args:
        wanted: text of `FAULTS=` or its parts: `id`, `id@subject`, or a YAML file; several separated by commas.
        model: the healthy cluster, for the names of possible subjects.
        catalogue: the known faults.
        seed: draws the subjects that are not named; by default the model's own.

    Raises:
        ProblemsError: every unknown id, subject or unreadable file, with the nearest known names.
    """
    draw = random.Random(model.seed if seed is None else seed)
    problems: list[BringupError] = []
    chosen: list[Fault] = []
    for text in _parts(wanted):
        try:
            chosen += _chosen(text, model, catalogue, draw, {(fault.id, fault.subject) for fault in chosen})
        except ProblemsError as error:
            problems.extend(error.problems)
        except BringupError as error:
            problems.append(error)
    if problems:
        raise ProblemsError(FAULTS_VARIABLE, tuple(problems))
    return tuple(chosen)


def unknown_faults(
    wanted: Sequence[str], catalogue: Mapping[str, FaultDefinition], hosts: Collection[str]
) -> list[BringupError]:
    """Return what is wrong with ids and hosts before there is a cluster: its other parts, and files, come later.

    Args:
        wanted: as for `choose_faults`.
        catalogue: the known faults.
        hosts: names of the simulated hosts; empty where they are not known.
    """
    texts = dict.fromkeys(text for text in _parts(wanted) if not _is_file(text))
    names = dict.fromkeys(text.partition("@")[0] for text in texts)
    problems = [_no_fault(name, catalogue) for name in names if name not in catalogue]
    for text in texts:
        host = text.partition("@")[2].partition("/")[0]
        definition = _meant(text.partition("@")[0], catalogue)
        if host and hosts and definition and definition.kind in _OF_HOSTS and host not in hosts:
            near = nearest(host, hosts)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {first_of(sorted(hosts), _SHOWN)}"
            problems.append(NotFoundError(f"{FAULTS_VARIABLE} {text!r}", f"there is no host {host!r}.", hint))
    return problems


def _meant(name: str, catalogue: Mapping[str, FaultDefinition]) -> FaultDefinition | None:
    """Return the fault; of an unknown id the one that is near it, where there is only one."""
    near = [name] if name in catalogue else nearest(name, catalogue)
    return catalogue[near[0]] if len(near) == 1 else None


def _parts(wanted: str | Sequence[str]) -> list[str]:
    texts = [wanted] if isinstance(wanted, str) else wanted
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _is_file(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or "/" in text.partition("@")[0]


def _no_fault(name: str, catalogue: Mapping[str, FaultDefinition]) -> BringupError:
    # With some hundred ids a list of all is no help.
    near = f"{nearest_hint(name, catalogue)} " if nearest(name, catalogue) else ""
    hint = f"{near}({_LISTS})" if near else _LISTS
    return NotFoundError(f"{FAULTS_VARIABLE} {name!r}", "is not in the catalogue.", hint)


def _chosen(
    text: str,
    model: ClusterModel,
    catalogue: Mapping[str, FaultDefinition],
    draw: random.Random,
    taken: set[tuple[str, str]],
) -> list[Fault]:
    if _is_file(text):
        return list(_from_file(Path(text), model))
    name, _at, subject = text.partition("@")
    definition = catalogue.get(name)
    if definition is None:
        raise _no_fault(name, catalogue)
    known = subject_names(model, definition.kind)
    if subject in known:
        hit = subject
    else:
        fitting = [other for other in known if not subject or other.startswith(f"{subject}/")]
        free = [other for other in fitting if (name, other) not in taken]
        if not free:
            raise _no_subject(text, definition, subject, known)
        hit = draw.choice(free)
    return [Fault(id=definition.id, kind=definition.kind, subject=hit, patch=definition.patch)]


def _no_subject(text: str, definition: FaultDefinition, subject: str, known: Sequence[str]) -> BringupError:
    if not known:
        return NotFoundError(
            f"{FAULTS_VARIABLE} {text!r}", f"the cluster has no {definition.kind}.", "choose another fault"
        )
    if not subject:
        return InputError(
            f"{FAULTS_VARIABLE} {text!r}", f"every {definition.kind} has it already.", "ask for it less often"
        )
    names = [*known[:400], *{name.partition("/")[0] for name in known[:400]}]
    near = nearest(subject, names)
    hint = nearest_hint(subject, near) if near else f"there are {first_of(known, _SHOWN)}"
    return NotFoundError(f"{FAULTS_VARIABLE} {text!r}", f"there is no {definition.kind} {subject!r}.", hint)


def _from_file(path: Path, model: ClusterModel) -> tuple[Fault, ...]:
    data: Any = read_yaml(path)
    if isinstance(data, list):
        data = {"faults": data}
    faults = decode(_FaultFile, data, str(path)).faults
    for fault in faults:
        if fault.subject not in subject_names(model, fault.kind):
            hint = nearest_hint(fault.subject, subject_names(model, fault.kind)[:400])
            raise NotFoundError(f"{path}: {fault.id}", f"there is no {fault.kind} {fault.subject!r}.", hint)
    return faults


# Which faults a cluster can show: a RoCE fault, for example, changes nothing in the output of a host with InfiniBand.
#
# Numbers of hosts and the site's own settings are left out: with fewer hosts a fault still shows, with another outcome.

# Number of parts that one of them needs to be an outlier.
_ODD_ONE = 3
_FABRICS = ("infiniband", "roce", "efa")
DRA = "dra"


def words_of_model(model: ClusterModel, skus: Sequence[Sku]) -> dict[str, bool]:
    """Return by word whether the hosts of a healthy cluster have it. The README of the faults explains the words.

    Args:
        model: the cluster.
        skus: those of its hosts in the inventory.
    """
    sliced = any(gpu.mig for node in model.nodes for gpu in node.gpus)
    verbs = all(sku.fabric in ("infiniband", "roce") for sku in skus)
    return {
        **{fabric: any(sku.fabric == fabric for sku in skus) for fabric in _FABRICS},
        # A GPU in MIG mode uses no NVLink.
        "nvlink": not sliced and all(sku.nvlink_links for sku in skus),
        "nvswitch": all(sku.nvswitches for sku in skus),
        "nvlink_fabric": not sliced and all(sku.nvswitches or sku.nvlink_domain == "rack" for sku in skus),
        "rdma": verbs,
        "ibstat": verbs and all("ibstat" not in node.tools for node in model.nodes),
        "standby": model.infiniband.subnet_managers == "both",
        "three_adapters": all(len(node.hcas) >= _ODD_ONE for node in model.nodes),
        "two_gpus": all(len(node.gpus) > 1 for node in model.nodes),
        "chrony": all("chronyc" not in node.tools for node in model.nodes),
        "bare_metal": all(node.virtualisation == "none" for node in model.nodes),
        "pcie_switch": all(
            node.virtualisation == "none" and node.nic_view != "hidden" and (node.hcas or not node.gpus[0].nvlinks)
            for node in model.nodes
        ),
        "pcie_host_link": all(sku.nvlink_domain != "rack" for sku in skus),
        "imex": all("nvidia-imex" in node.services for node in model.nodes),
        "mig": not sliced and all(node.accelerator.mig for node in model.nodes),
        "ecc": not any("ecc_errors" in path for node in model.nodes for path in node.smi_xml),
    }


def gives_out_by_claims(overrides: Mapping[str, object]) -> bool:
    """Return whether the components' values make the DRA driver allocate GPUs. Then gate gpu_stack needs its slices."""
    found: object = overrides
    for key in ("nvidia-dra-driver-gpu", "resources", "gpus", "enabled"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found is True


# Parts of the model that only one source shows. Checks of BMCs, for example, are declared only for hosts with a BMC.
_SHOWN_BY = {"node.bmc": "a BMC (gpufleet_bmc)", "rack.units": "a simulated PDU"}
_INSTEAD = {
    "node": "state gpufleet_bmc of the host in the inventory",
    "rack": "rehearse without an inventory (PDUs that a site states are real, and none is asked)",
}


def refuse_unshown(
    faults: Sequence[Fault],
    catalogue: Mapping[str, FaultDefinition],
    model: ClusterModel,
    hardware: Mapping[str, Sku],
    *,
    dra: bool,
    requested: Collection[str],
) -> None:
    """Refuse faults that this cluster cannot show: a rehearsal with one would pass, and find nothing.

    Args:
        faults: the chosen faults; one from the user's file is not checked.
        catalogue: the known faults.
        model: the healthy cluster.
        hardware: the SKU facts of its hosts.
        dra: whether GPUs are allocated by claims.
        requested: hosts whose BMC is queried, and racks whose PDUs are.

    Raises:
        ProblemsError: every fault with the words that it needs and the cluster lacks.
    """
    skus = [hardware[node.sku] for node in model.nodes if node.kubernetes.member]
    there = {**words_of_model(model, skus), DRA: dra}
    problems: list[BringupError] = []
    for fault in faults:
        needs = catalogue[fault.id].needs if fault.id in catalogue else ()
        if lacks := [word for word in needs if not there.get(word, True)]:
            reason = f"needs {', '.join(lacks)}, which this cluster has not, so nothing would show it."
            hint = f"choose a world or SKU that has it (playbook rehearse_worlds), or another fault ({_LISTS})"
            problems.append(InputError(f"{FAULTS_VARIABLE} {fault.id!r}", reason, hint))
        elif fault.subject not in requested:
            problems += _not_asked(fault, requested)
    if problems:
        raise ProblemsError(FAULTS_VARIABLE, tuple(problems))


def _not_asked(fault: Fault, requested: Collection[str]) -> list[BringupError]:
    """Return why a fault does not show that only a BMC or a PDU reveals: that of its host or rack is not queried."""
    places = {".".join(change.at.split(".")[:2]) for change in fault.patch}
    lacks = [text for place, text in _SHOWN_BY.items() if place in places]
    if not lacks:
        return []
    others = sorted(name for name in requested if fault.kind == "node")
    hint = f"name a host that has one: {fault.id}@{others[0]}; " if others else ""
    reason = f"needs {lacks[0]}, which {fault.subject} has not here, so nothing would show it."
    return [InputError(f"{FAULTS_VARIABLE} {fault.id!r}", reason, f"{hint}{_INSTEAD[fault.kind]}")]
