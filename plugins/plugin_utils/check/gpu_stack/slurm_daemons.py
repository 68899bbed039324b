# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of a Slurm without Kubernetes.

Its daemons respond and are of one release, jobs are confined to their devices, and the programs around jobs are
configured.

slurmdbd may be newer than slurmctld, and slurmctld newer than slurmd, never the other way around (SchedMD/slurm,
doc/html/upgrades.shtml). The distance between releases is not judged: a slurmd that is too old cannot register.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from ...outcome.errors import InputError
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...outcome.wording import first_of
from ...probe import slurm_config
from ...probe.slurm_config import SlurmConfig
from ...probe.slurm_nodes import SlurmNode
from ...site.model import Host
from ..kit.answer import Answer
from ..kit.settings import setting
from ..spec import Check, CheckSpec, JudgeContext
from .observe_slurm import Said, controllers_in, nodes_of
from .observe_slurm_daemons import OBSERVER, SlurmDaemons

T = TypeVar("T")
_NAMED = 8
_PROGRAMS = ("Prolog", "Epilog", "HealthCheckProgram")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings:
    """Settings of check slurm-programs."""

    wanted: tuple[str, ...] = setting(
        "Programs that slurm.conf has to name: Prolog, Epilog, HealthCheckProgram; what is not among them "
        "may be unset.",
        default=["Prolog", "Epilog", "HealthCheckProgram"],
    )


CONTROLLER = CheckSpec(
    id="slurm-controller",
    gate="gpu_stack",
    title="Slurm's daemons answer and are of one release",
    per=SubjectKind.CLUSTER,
    duration_s=2.0,
    only_on="slurm",
    causes=("slurm-controller-down", "slurm-database-down", "slurm-release-order"),
)
DEVICES = CheckSpec(
    id="slurm-devices",
    gate="gpu_stack",
    title="Jobs are confined to their devices, as slurmctld is configured",
    per=SubjectKind.CLUSTER,
    only_on="slurm",
    causes=("slurm-devices-open",),
)
PROGRAMS = CheckSpec(
    id="slurm-programs",
    gate="gpu_stack",
    title="Prolog, epilog and health check of nodes are configured",
    per=SubjectKind.CLUSTER,
    only_on="slurm",
    settings=ProgramSettings,
)


def read(answer: Answer, reported: Said, command: str, parse: Callable[[Said], T]) -> T | Outcome:
    """Return the parsed output of a command, or the outcome with the reason why it is not known."""
    evidence = (said_by(command, reported),)
    hint = f"try it as this user on this machine: {command}"
    if reported.timed_out:
        return answer.unknown("slurm-timeout", f"`{command}` did not end in time", hint, evidence=evidence)
    try:
        if reported.rc == 0:
            return parse(reported)
        why = reported.last
    except InputError as error:
        why = error.reason
    text = f"`{command}` says nothing that can be judged: {why}"
    return answer.unknown("slurm-unread", text, hint, evidence=evidence)


def of_all(outcome: Outcome, hosts: tuple[Host, ...]) -> tuple[Outcome, ...]:
    """Return a copy of an outcome for each host, for what is the same on all of them."""
    return tuple(replace(outcome, subjects=(node_subject(host.name),)) for host in hosts)


def said_by(command: str, reported: Said) -> Evidence:
    """Return the output of a command as evidence."""
    return Evidence(command, "controller of gpufleet", f"{reported.stdout}\n{reported.stderr}".strip()[:1200])


def answers(observed: SlurmDaemons) -> bool:
    """Return whether any slurmctld responds.

    If none does, check slurm-controller reports it and the others are blocked.
    """
    return any(controllers_in(observed.ping.stdout).values())


def config_of(answer: Answer, observed: SlurmDaemons) -> SlurmConfig | Outcome:
    """Return the configuration, or the outcome that check slurm-controller reports why there is none."""
    found = read(
        answer, observed.config, slurm_config.CONFIG_TOOL, lambda reported: slurm_config.parse(reported.stdout)
    )
    if isinstance(found, Outcome) or not answers(observed):
        return answer.blocked(by=CONTROLLER.id, because="slurmctld does not say how it is configured")
    return found


def judge_controller(observed: SlurmDaemons, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes for slurmctld, then slurmdbd, then the releases of all three daemons."""
    answer = Answer.about_cluster(CONTROLLER, context)
    found = controllers_in(observed.ping.stdout)
    evidence = (said_by("scontrol ping", observed.ping),)
    if not found:
        unread = read(answer, observed.ping, "scontrol ping", lambda reported: _no_controller(reported.stdout))
        return (unread,)
    down = [name for name, up in found.items() if not up]
    hint = "on that machine: systemctl status slurmctld; journalctl -u slurmctld"
    if len(down) == len(found):
        text = f"slurmctld does not answer: {', '.join(down)}"
        return (answer.failed("slurm-controller-down", text, hint, evidence=evidence),)
    config = read(
        answer, observed.config, slurm_config.CONFIG_TOOL, lambda reported: slurm_config.parse(reported.stdout)
    )
    if isinstance(config, Outcome):
        return (config,)
    bad = () if not down else (
        answer.marginal(
            "slurm-controller-degraded", f"one slurmctld answers, and another does not: {', '.join(down)}", hint,
            evidence=evidence,
        ),
    )  # fmt: skip
    database = _database(answer, observed, config)
    if isinstance(database, Outcome):
        return (database, *bad)
    return (*bad, *_releases(answer, observed, config.values["SLURM_VERSION"], database, whole=not bad))


def _no_controller(text: str) -> Outcome:
    raise InputError("scontrol ping", f"it prints no line of a slurmctld: {text.strip()[:80] or 'nothing'!r}", "")


def _database(answer: Answer, observed: SlurmDaemons, config: SlurmConfig) -> str | Outcome:
    """Return the version of slurmdbd. Empty: the site has none."""
    try:
        kind = config.said("AccountingStorageType")
    except InputError as error:
        return answer.unknown("slurm-unread", error.reason, error.hint, evidence=(said_by("config", observed.config),))
    if not kind.endswith("/slurmdbd"):
        return ""
    tool = slurm_config.DATABASE_TOOL
    if observed.database is None:
        return answer.unknown("no-data", "slurmdbd was not asked", "run the gate again")
    found = read(
        answer,
        observed.database,
        tool,
        lambda reported: (slurm_config.database_version(reported.stdout, reported.stderr),),
    )
    if isinstance(found, Outcome):
        return found
    if found[0] is None:
        hint = "on the machine of AccountingStorageHost: systemctl status slurmdbd; journalctl -u slurmdbd"
        text = f"slurmdbd does not answer: {observed.database.last}"
        return answer.failed("slurm-database-down", text, hint, evidence=(said_by(tool, observed.database),))
    return found[0]


def _releases(
    answer: Answer, observed: SlurmDaemons, controller: str, database: str, *, whole: bool
) -> tuple[Outcome, ...]:
    """Compare the releases. Without `whole`, another outcome reports a fault, and nothing passes."""
    hosts = in_scope(answer, observed)
    if isinstance(hosts, Outcome):
        return (hosts,)
    unknown = [name for name, node in hosts.items() if node is None or not node.version]
    if unknown:
        text = f"the release of slurmd is not known on {first_of(unknown, _NAMED)}"
        return (answer.blocked(by=NODES_ID, because=text),)
    nodes = {name: node.version for name, node in hosts.items() if node is not None}
    facts = {
        "measured": (
            Measure("slurmctld", controller),
            *((Measure("slurmdbd", database),) if database else ()),
            *(Measure("slurmd", version) for version in sorted(set(nodes.values()))),
        ),
        "expected": (Expectation("slurmd", "==", controller, Basis.RULE),),
    }
    reported = f"slurmctld {controller}, slurmdbd {database or 'none'}, slurmd {', '.join(sorted(set(nodes.values())))}"
    try:
        order = [slurm_config.release(controller)]
        newer = [name for name, version in nodes.items() if slurm_config.release(version) > order[0]]
        older = bool(database) and slurm_config.release(database) < order[0]
    except InputError as error:
        return (answer.unknown("slurm-unread", f"{reported}: {error.reason}", error.hint, **facts),)
    if newer or older:
        who = f"slurmd is newer than slurmctld on {first_of(newer, _NAMED)}" if newer else "slurmdbd is older than it"
        hint = "upgrade in the order slurmdbd, slurmctld, slurmd (slurm.schedmd.com/upgrades.html)"
        return (answer.failed("slurm-release-order", f"{reported}: {who}", hint, **facts),)
    others = [name for name, version in nodes.items() if version != controller]
    if others or (database and database != controller):
        where = f" ({first_of(others, _NAMED)})" if others else ""
        hint = "bring all daemons to one release, or accept it while an upgrade goes on (gpufleet_acceptances)"
        return (answer.marginal("slurm-releases-differ", f"{reported}{where}", hint, **facts),)
    text = f"slurmctld answers; {reported} on {len(nodes)} hosts"
    return (answer.passed(text, **facts),) if whole else ()


NODES_ID = "slurm-nodes"


def in_scope(answer: Answer, observed: SlurmDaemons) -> dict[str, SlurmNode | None] | Outcome:
    """Return the Slurm node by host in scope. None: Slurm does not have it."""
    if not answers(observed):
        return answer.blocked(by=CONTROLLER.id, because="slurmctld does not answer")
    nodes = read(answer, observed.nodes, "scontrol show nodes", nodes_of)
    if isinstance(nodes, Outcome):
        return nodes if answer.spec.id == NODES_ID else answer.blocked(by=NODES_ID, because="no node could be read")
    known = {node.name: node for node in nodes}
    return {host.name: known.get(host.node_name) for host in answer.context.site.in_scope}


def judge_devices(observed: SlurmDaemons, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. `ConstrainDevices` is in cgroup.conf and has no effect without the task plugin."""
    answer = Answer.about_cluster(DEVICES, context)
    config = config_of(answer, observed)
    if isinstance(config, Outcome):
        return (config,)
    evidence = (said_by(slurm_config.CONFIG_TOOL, observed.config),)
    try:
        plugin = config.said("TaskPlugin")
    except InputError as error:
        return (answer.unknown("slurm-unread", error.reason, error.hint, evidence=evidence),)
    cgroup = config.cgroup or {}
    confined = cgroup.get("ConstrainDevices", "").strip().lower()
    facts = {
        "measured": (Measure("TaskPlugin", plugin or "none"), Measure("ConstrainDevices", confined or "not printed")),
        "expected": (Expectation("ConstrainDevices", "==", "yes", Basis.RULE),),
        "evidence": evidence,
    }
    if "task/cgroup" not in plugin.split(","):
        hint = "slurm.conf: TaskPlugin=task/cgroup,task/affinity, and restart slurmctld and slurmd"
        text = f"TaskPlugin is {plugin or 'none'}: a job can open every GPU of its host"
        return (answer.failed("slurm-devices-open", text, hint, **facts),)
    if confined == "no":
        hint = "cgroup.conf of every host: ConstrainDevices=yes, and restart slurmd"
        text = "ConstrainDevices is no: a job can open every GPU of its host"
        return (answer.failed("slurm-devices-open", text, hint, **facts),)
    if confined != "yes":
        text = f"slurmctld does not say whether jobs are confined to their devices: {confined or 'no line of it'}"
        return (answer.unknown("slurm-unread", text, "read cgroup.conf: grep ConstrainDevices", **facts),)
    version = cgroup.get("CgroupPlugin", "").strip() or "not printed"
    return (answer.passed(f"task/cgroup with ConstrainDevices=yes (CgroupPlugin {version})", **facts),)


def judge_programs(observed: SlurmDaemons, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. A site may run without these programs; a person has to configure that once."""
    answer = Answer.about_cluster(PROGRAMS, context)
    config = config_of(answer, observed)
    if isinstance(config, Outcome):
        return (config,)
    wanted = context.settings_of(PROGRAMS.id, ProgramSettings).wanted
    evidence = (said_by(slurm_config.CONFIG_TOOL, observed.config),)
    strange = [name for name in wanted if name not in _PROGRAMS]
    try:
        found = {name: config.programs(name) for name in wanted if name in _PROGRAMS}
        interval = config.said("HealthCheckInterval").split()[0] if "HealthCheckProgram" in found else "1"
    except (InputError, IndexError) as error:
        return (answer.unknown("slurm-unread", str(error), "scontrol show config", evidence=evidence),)
    missing = [name for name, value in found.items() if not value]
    reported = ", ".join(f"{name} {value or 'unset'}" for name, value in found.items())
    facts = {"measured": tuple(Measure(name, value or "unset") for name, value in found.items()), "evidence": evidence}
    if strange:
        hint = f"correct gpufleet_settings: {{{PROGRAMS.id}: {{wanted: [...]}}}}; there are {', '.join(_PROGRAMS)}"
        return (answer.unknown("setting-unknown", f"{', '.join(strange)} is no such program", hint, **facts),)
    if missing:
        hint = (
            f"name them in slurm.conf and run scontrol reconfigure; a site without them says so: gpufleet_settings: "
            f"{{{PROGRAMS.id}: {{wanted: [{', '.join(name for name in found if name not in missing)}]}}}}"
        )
        return (answer.marginal("slurm-program-unset", f"not configured: {', '.join(missing)}", hint, **facts),)
    if "HealthCheckProgram" in found and interval in ("0", ""):
        hint = "slurm.conf: HealthCheckInterval=300, and run scontrol reconfigure"
        text = "HealthCheckProgram never runs: HealthCheckInterval is 0"
        return (answer.marginal("slurm-health-check-off", text, hint, **facts),)
    return (answer.passed(reported or "none is wanted", **facts),)


CHECKS = (
    Check(CONTROLLER, OBSERVER, judge_controller),
    Check(DEVICES, OBSERVER, judge_devices),
    Check(PROGRAMS, OBSERVER, judge_programs),
)
