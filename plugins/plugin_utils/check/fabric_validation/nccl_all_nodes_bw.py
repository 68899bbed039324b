# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: all hosts together reach what the topology allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...outcome.model import Measure, Outcome, SubjectKind
from ...outcome.wording import first_of
from ..benchmark.preconditions import no_run, nodes, of_problem
from ..kit.answer import Answer
from ..kit.ways import BETWEEN_HOSTS, NVLS
from ..spec import Check, CheckSpec, Disturbance, Equals, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
from .model import Results, Run
from .observe_nccl import OBSERVER
from .preconditions import unreferenced
from .rendering import figures, rate_text
from .settings import ALL_NODES, AllNodesSettings
from .transport import between_hosts, host_log, nvls_of, nvls_offered

# Whether a run of all hosts was reduced in the InfiniBand switches (SHARP), if the site requires it. NCCL falls back to
# rings without an error where no SHARP job can be created. Proof that it did not: every host has ranks that created
# their job (a line of Mellanox/nccl-rdma-sharp-plugins), and the algorithm at the largest size is one that reduces
# there: CollNet, or NVLS between nodes (NVIDIA/nccl#919: NVLink SHARP within nodes, CollNet between them).

_IN_SWITCHES = ("collnetdirect", "collnetchain", "nvls")
_MOST = 3


@dataclass(frozen=True, slots=True)
class SharpProof:
    """What the log proves about SHARP.

    Attributes:
        proof: `used`; `unused`; `unchosen`: it was available and NCCL chose another algorithm; `unknown`: not in the
            log.
        text: one sentence.
        hint: what to do.
        hosts: the hosts without it.
    """

    proof: Literal["used", "unused", "unchosen", "unknown"]
    text: str = ""
    hint: str = ""
    hosts: tuple[str, ...] = ()


def sharp_of(run: Run, *, fabric: str) -> SharpProof:
    """Return what the log of a run proves about SHARP."""
    if fabric != "infiniband":
        text = f"SHARP is stated, and the fabric of these hosts is {fabric}: only switches of InfiniBand reduce"
        return SharpProof("unknown", text, "leave sharp out of the settings of nccl-all-nodes-bw")
    if run.debug is not None and run.debug.clique_size == run.record.ranks:
        text = "SHARP is stated, and all hosts are in one NVLink domain: nothing between them goes over InfiniBand"
        return SharpProof(
            "unknown", text, "leave sharp out of the settings of nccl-all-nodes-bw, or test several domains"
        )
    logs = {name: host_log(run, name) for name in run.record.hosts}
    not_reporting = [name for name, log in logs.items() if log is None]
    if not_reporting or not run.algorithm:
        text = (
            f"no line of NCCL about {', '.join(not_reporting[:_MOST])}"
            if not_reporting
            else "NCCL does not say which algorithm it used"
        )
        return SharpProof("unknown", f"{text}, so nothing is known of SHARP", "read the log of the run")
    without = tuple(name for name, log in logs.items() if log and not log.sharp)
    refused = {name: log.no_sharp for name, log in logs.items() if log and log.no_sharp}
    if without or refused:
        return _unused(run, without or tuple(refused), refused)
    if run.algorithm not in _IN_SWITCHES:
        text = f"every host made its job of SHARP, and NCCL chose {run.algorithm} at the largest size"
        return SharpProof("unchosen", text, "state NCCL_ALGO (settings: env), or do without SHARP")
    return SharpProof("used", f"reduced in the switches by {run.algorithm}")


def _unused(run: Run, hosts: tuple[str, ...], refused: dict[str, tuple[str, ...]]) -> SharpProof:
    start = f"no reduction in the switches (SHARP) with {first_of(hosts, _MOST)}; NCCL used {run.algorithm}"
    if refused:
        host, lines = next(iter(refused.items()))
        hint = (
            "see that the aggregation manager runs beside the subnet manager (`systemctl status sharp_am`, or SHARP in "
            f"UFM) and try `/opt/mellanox/sharp/bin/sharp_hello -d mlx5_0:1 -v 3` on {host}"
        )
        return SharpProof("unused", f"{start}; {host} says: {lines[0]}", hint, hosts)
    plugins = [name for name in hosts if (log := host_log(run, name)) and not log.collnet]
    if plugins:
        hint = "use an image with nccl-rdma-sharp-plugins (HPC-X has it) and put its directory into LD_LIBRARY_PATH"
        return SharpProof("unused", f"{start}: its image has no CollNet plugin", hint, hosts)
    hint = "read the lines of the run about SHARP and CollNet; NCCL_COLLNET_ENABLE has to be 1 (settings: env)"
    return SharpProof("unused", f"{start}, and no line says why", hint, hosts)


SPEC = CheckSpec(
    id=ALL_NODES,
    gate="fabric_validation",
    title="Bandwidth over all hosts",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    applies=(needs("kubernetes|slurm", "multi_node"), Equals()),
    causes=("all-nodes-bandwidth-low", "sharp-not-used", "wrong-results"),
    settings=AllNodesSettings,
)
_HINTS = dict.fromkeys(
    ("wrong-results", "run-hung", "run-crashed", "output-incomplete", "not-validated"),
    "read the log; run the gate again, and bisect the hosts if it stays",
)
_HINT = "pairs are fine and the whole is not: look at spine links and adaptive routing, or bisect the hosts"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every SKU."""
    alone = {host.sku for host in context.site.without_equal}
    cohorts = [found for sku, found in cohorts_of(results, context.hardware).items() if sku not in alone]
    sharp = context.settings_of(ALL_NODES, AllNodesSettings).sharp
    return tuple(_judge_cohort(Answer.about_cluster(SPEC, context), cohort, sharp) for cohort in cohorts)


def _judge_cohort(answer: Answer, cohort: SkuCohort, by_sharp: bool) -> Outcome:
    if not cohort.sound:
        return _not_run(answer, cohort)
    result = cohort.whole
    if result is None:
        return no_run(answer)
    details = {**figures(result, cohort.limits), "more_subjects": nodes(result.hosts)}
    if result.problem is not None:
        return of_problem(answer, result.problem, _HINTS, f"{len(result.hosts)} hosts", **details)
    run = result.best_run
    ways = (
        Measure(BETWEEN_HOSTS, between_hosts(run)),
        Measure(NVLS, nvls_of(run)),
        Measure("NVLS of the GPUs", nvls_offered(run)),
    )
    details["measured"] = (*details["measured"], *ways)
    text = f"{len(result.hosts)} hosts: {rate_text(result)}"
    if by_sharp:
        # Without SHARP the figure is that of another way to reduce.
        sharp = sharp_of(run, fabric=cohort.sku.fabric)
        if sharp.proof == "unused":
            details["more_subjects"] = nodes(sharp.hosts)
            return answer.failed("sharp-not-used", f"{sharp.text}; {text}", sharp.hint, **details)
        if sharp.proof == "unknown":
            return answer.unknown("sharp-not-seen", sharp.text, sharp.hint, **details)
        if sharp.proof == "unchosen" and result.verdict != "bad":
            return answer.marginal("sharp-not-chosen", f"{sharp.text}; {text}", sharp.hint, **details)
        text = f"{text}, {sharp.text}"
    if result.verdict == "good":
        return answer.passed(text, **details)
    if result.verdict == "bad":
        text = f"{text}, in most of {len(result.runs)} runs"
        return answer.failed("all-nodes-bandwidth-low", text, _HINT, **details)
    if result.verdict == "marginal":
        cause = "unsaturated" if result.unsaturated else "all-nodes-bandwidth-marginal"
        hint = "measure with a larger size (largest)" if result.unsaturated else _HINT
        return answer.marginal(cause, text, hint, **details)
    return unreferenced(answer, cohort.sku_name, text, "published_busbw", **details)


def _not_run(answer: Answer, cohort: SkuCohort) -> Outcome:
    """Return the outcome if a run over all hosts would only repeat what is already known."""
    if any(host.closed for host in cohort.hosts) or any(s.problem for s in cohort.alone.members):
        return answer.blocked(by="nccl-results", because="not every host can take part")
    if cohort.alone.to_blame or any(s.verdict == "bad" for s in cohort.alone.members):
        return answer.blocked(by="nccl-intra-node-bw", because="hosts are slow by themselves")
    if cohort.without_rdma or cohort.broken:
        return answer.blocked(by="nccl-transport", because="not every host has RDMA")
    if cohort.blame.nodes and all(s.problem for name in cohort.blame.nodes for s in cohort.bad_pairs_of(name)):
        return answer.blocked(by="nccl-results", because="runs with some hosts give no figure")
    return answer.blocked(by="nccl-pair-bw", because="not every pair is good")


CHECK = Check(SPEC, OBSERVER, judge)
