# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate inference_acceptance: how the model is served, loaded and judged."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ...outcome.errors import InputError
from ...verdict.peers import PeerLimits
from ..kit.peer_settings import cohort_share, peer_spreads, peer_tolerance, peers_least
from ..kit.settings import part, release_data, setting

GATE = "inference_acceptance"
Percentile = Literal[50, 75, 90, 95, 99]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How vLLM is deployed and reached."""

    image: str = setting("Image of the server; an air-gapped site names its own.")
    model: str = setting(
        "Name of the model hub, or a path below the mounted volume (/models/...).", default="Qwen/Qwen3-8B"
    )
    served_name: str = setting("Name that the model is served by; empty: the model's own.", default="")
    tensor_parallel: int = setting(
        "GPUs of one copy of the model; a host has as many copies as fit on its GPUs.",
        default=1,
        unit="GPUs",
        minimum=1,
    )
    api_servers: int = setting(
        "API server processes of a host (--api-server-count); 0: one for each copy of the model. One alone cannot "
        "carry what eight engines generate.",
        default=0,
        unit="processes",
        minimum=0,
    )
    max_model_len: int = setting("Longest context.", default=4096, unit="tokens", minimum=1)
    gpu_memory_utilization: float = setting(
        "Part of a GPU's memory that the server takes.", default=0.9, above=0, maximum=1
    )
    arguments: tuple[str, ...] = setting("Further arguments of vLLM.", default=[])
    env: dict[str, str] = setting("Environment of the server.", default={})
    port: int = setting("Port of the server.", default=8000, minimum=1, maximum=65535)
    resources: dict[str, str] = setting("What a server's pod asks for beside its GPUs; empty: nothing.", default={})
    shm_gib: int = setting("Shared memory of a server's pod.", default=16, unit="GiB", minimum=0)
    volume: dict[str, Any] = setting(
        "Volume source of a pod with the weights ({nfs: {...}}, {hostPath: {...}}, ...), mounted at /models. Without "
        "volume and claim they are fetched from the hub.",
        default={},
    )
    claim: dict[str, Any] = setting(
        "Spec of a PersistentVolumeClaim with the weights, made in the run's namespace.", default={}
    )
    stage: bool = setting(
        "Volume or claim is empty and can be written: the first server fetches the weights into it (HF_HOME), the "
        "others start when it serves.",
        default=False,
    )
    hub: str = setting(
        "URL of the site's own mirror of the model hub (HF_ENDPOINT); empty: the public hub.", default=""
    )
    downloads: int = setting(
        "Most hosts that fetch weights from the hub at a time; the next one starts when one serves. Where volume or "
        "claim has the weights it does not count.",
        default=4,
        unit="hosts",
        minimum=1,
    )
    token_secret: str = setting(
        "Secret with the hub's token, as namespace/name/key; it is copied into the run's namespace.", default=""
    )
    reach: Literal["port-forward", "service-proxy", "url"] = setting(
        "How the controller reaches a server.", default="port-forward"
    )
    url: str = setting("With reach: url, the URL, with {node}, {service} and {namespace}.", default="")
    parallel: int = setting("Most hosts at a time.", default=64, unit="hosts", minimum=1)
    schedule_s: float = setting("How long a pod may wait for a node.", default=60, unit="s", above=0)
    pull_s: float = setting(
        "How long a pod may take to start once it has a node, which is mostly pulling the image.",
        default=900,
        unit="s",
        above=0,
    )
    ready_s: float = setting(
        "How long a server may take from its start until it serves.", default=1800, unit="s", above=0
    )
    restarts: int = setting(
        "How often a server may die before it serves; what it says about memory is final at once.",
        default=2,
        unit="times",
        minimum=0,
    )
    cleanup_s: float = setting("Longest time to remove what the gate made.", default=60, unit="s", above=0)
    total_s: float = setting(
        "Longest time of the gate for up to 4 groups of `parallel` hosts; longer by as much as there are more groups.",
        default=7200,
        unit="s",
        above=0,
    )

    def __post_init__(self) -> None:
        _need(not (self.volume and self.claim), "volume or claim, not both")
        _need(not self.stage or bool(self.volume or self.claim), "with stage a volume or claim that all hosts share")
        _need(not self.token_secret or self.token_secret.count("/") == 2, "token_secret as namespace/name/key")
        _need(self.reach != "url" or bool(self.url), "a url where servers are reached by one")

    @property
    def name(self) -> str:
        """The name that the model is served by."""
        return self.served_name or self.model

    @property
    def storage(self) -> dict[str, Any]:
        """The volume source with the weights. Empty: they come from the hub."""
        if not self.claim:
            return self.volume
        return {"persistentVolumeClaim": {"claimName": "models", "readOnly": not self.stage}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeSettings:
    """The smoke request."""

    prompt: str = setting(
        "What the model has to continue.", default="1, 2, 3, 4, 5, 6, 7, 8, 9, 10,", name="smoke_prompt"
    )
    expect: str = setting(
        "Regular expression that its answer must match; empty: any answer that is not empty.",
        default="\\b11\\b",
        name="smoke_expect",
        use="judge",
    )
    tokens: int = setting("Most tokens of the answer.", default=16, name="smoke_tokens", unit="tokens", minimum=1)
    request_s: float = setting("Longest time of the request.", default=120, name="smoke_request_s", unit="s", above=0)

    def __post_init__(self) -> None:
        try:
            re.compile(self.expect)
        except re.error as error:
            _need(False, f"a regular expression as smoke_expect ({error})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The load of AIPerf."""

    image: str = setting("Image of the pod that loads the server; any with Python.", name="load_image")
    package: str = setting("Installed in that pod first; empty where the image has it.", default="aiperf==0.13.0")
    tokenizer: str = setting("Tokenizer of the load; empty: the model's.", default="")
    endpoint: Literal["chat", "completions"] = setting("Endpoint that is loaded.", default="chat")
    input_tokens: int = setting("Length of a prompt.", default=128, unit="tokens", minimum=1)
    output_tokens: int = setting("Length of an answer.", default=128, unit="tokens", minimum=2)
    concurrency_per_gpu: int = setting(
        "Requests at a time, for each GPU of a host.", default=256, unit="requests", minimum=1
    )
    warmup_per_concurrency: float = setting(
        "Requests before the measured ones, as a multiple of the requests at a time.", default=1.0, minimum=0
    )
    requests_per_concurrency: int = setting(
        "Measured requests, as a multiple of the requests at a time.", default=8, minimum=1
    )
    least_requests: int = setting("Fewest measured requests.", default=1000, unit="requests", minimum=1)
    uncached_per_concurrency: int = setting(
        "Measured requests, as a multiple of the requests at a time, of a second load whose prompts are each sent "
        "once, so that the prefix cache has none of them; 0: no such load.",
        default=4,
        minimum=0,
    )
    light_per_gpu: int = setting(
        "Requests at a time, for each GPU of a host, of a third load at another operating point; 0: no such load.",
        default=16,
        unit="requests",
        minimum=0,
    )
    dataset_entries: int = setting("Number of different prompts.", default=100, minimum=1)
    input_tolerance: float = setting(
        "Part by which prompts may be longer or shorter than asked for, as the server counts them: a chat template "
        "adds some tokens, a tokenizer that is not the server's makes other lengths.",
        default=0.5,
        minimum=0,
    )
    seed: int = setting("Seed of the prompts.", default=100)
    request_s: float = setting("Longest time of one request.", default=300, name="load_request_s", unit="s", above=0)
    timeout_s: float = setting("Longest time of one load.", default=1800, unit="s", above=0)
    repeats: int = setting(
        "How often a host is loaded before a bad figure counts; the median is judged.", default=3, minimum=1
    )

    def concurrency(self, gpus: int) -> int:
        """Requests at a time for this many GPUs."""
        return self.concurrency_per_gpu * gpus

    def requests(self, gpus: int) -> int:
        """Requests of a measured run."""
        return max(self.least_requests, self.requests_per_concurrency * self.concurrency(gpus))

    def warmup(self, gpus: int) -> int:
        """Warmup requests, which are not measured."""
        return round(self.warmup_per_concurrency * self.concurrency(gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What the measured load is judged by."""

    slack: float = setting(
        "Part by which throughput may miss its bound. Latencies have no slack.", default=0.1, minimum=0, below=1
    )
    ttft_percentile: Percentile = setting(
        "Percentile of the time to the first token that is judged.", default=99, unit="%"
    )
    tpot_percentile: Percentile = setting(
        "Percentile of the time per output token that is judged.", default=99, unit="%"
    )
    # Equal hosts differ by 1 to 3 %.
    peer_tolerance: float = peer_tolerance(default=0.05)
    peer_spreads: float = peer_spreads(default=3.0)
    peer_bad: float = setting(
        "Part of the median of its peers by which a host may be slower before it fails; between this and "
        "peer_tolerance it is marginal.",
        default=0.15,
        minimum=0,
        below=1,
    )
    peers_least: int = peers_least(default=4)
    cohort_share: float = cohort_share(default=0.5)
    tpot_tail: float = setting(
        "Without a bound of the site for the time per output token: how many times the median of its own requests the "
        "percentile of a host may be before it is marginal. Its copies of the model are equals.",
        default=2.0,
        minimum=1,
    )

    @property
    def peers(self) -> PeerLimits:
        """The limits of the peer comparison."""
        return PeerLimits(
            tolerance=self.peer_tolerance, spreads=self.peer_spreads, least=self.peers_least, share=self.cohort_share
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The bounds of a deployment: tokens/s per GPU, and latencies in ms. 0: not configured."""

    throughput_per_gpu: float = 0.0
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SloLoad:
    """The load that the figures of `slos` are for. Another load needs its own bounds."""

    input_tokens: int
    output_tokens: int
    concurrency_per_gpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """How the death of a server is classified.

    Attributes:
        words: regular expression for its log.
        cause: slug.
        final: another start is useless.
        hint: what to do.
        patient: it is started again until its time is over, however often it dies.
        blames_host: False: the cause is not the host, so the result is only unknown.
    """

    words: str
    cause: str
    final: bool
    hint: str
    patient: bool = False
    blames_host: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSettings:
    """Settings of gate inference_acceptance; saved with the observation."""

    server: ServerSettings = part("run")
    smoke: SmokeSettings = part("run")
    load: LoadSettings = part("run")
    judge: JudgeSettings = part()
    slo: Slo = setting(
        "Bounds of the site: throughput_per_gpu (tokens/s), ttft_ms (time to the first token, ms), tpot_ms (time per "
        "output token, ms); 0: the one of slos for model and accelerator.",
        default={"throughput_per_gpu": 0.0, "ttft_ms": 0.0, "tpot_ms": 0.0},
        minimum=0,
    )
    slo_load: SloLoad = release_data(
        "The load that the bounds of slos are for; with another one a site has to state its own."
    )
    slos: dict[str, dict[str, Slo]] = release_data("Bounds by model and accelerator.")
    server_errors: tuple[ServerError, ...] = release_data(
        "What a server that dies says, in order: a regular expression, the cause, what to do; final: trying again is "
        "no use; patient: it is tried until its time is over; blames_host: whether the host is at fault."
    )

    def slo_of(self, accelerator: str) -> tuple[Slo, str]:
        """Return the bounds for an accelerator, and their source. A bound that neither site nor release has is 0.

        Those of the release were measured with an API server for every engine, so they only apply to servers with as
        many API servers as copies.
        """
        comparable = asdict(self.slo_load).items() <= asdict(self.load).items() and not self.server.api_servers
        known = self.slos.get(self.server.model, {}).get(accelerator, Slo()) if comparable else Slo()
        configured = self.slo
        found = Slo(
            throughput_per_gpu=configured.throughput_per_gpu or known.throughput_per_gpu,
            ttft_ms=configured.ttft_ms or known.ttft_ms,
            tpot_ms=configured.tpot_ms or known.tpot_ms,
        )
        return found, "the site's SLO" if configured != Slo() else f"{self.server.model} on {accelerator}"

    def understand(self, log: str) -> ServerError | None:
        """Return what the last log lines of a server mean. None: not known."""
        flat = " ".join(log.split())
        return next((error for error in self.server_errors if re.search(error.words, flat)), None)


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise InputError(f"settings of {GATE}", f"{what} is expected.", "correct gpufleet_settings")


SETTINGS = InferenceSettings
