# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the gate serves, loads and judges: recipes/thresholds/inference_acceptance.yaml with the site's own values."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ...outcome.errors import InputError
from ...runtime.recipe_files import RECIPES
from ...runtime.strict import decode, nearest_hint, read_yaml
from ...verdict.peers import PeerLimits

GATE = "inference_acceptance"
_FILE = RECIPES / "thresholds" / "inference_acceptance.yaml"
_PARTS = ("server", "smoke", "load", "judge")
# The same word in two parts would make a setting ambiguous.
_PREFIXED = {"smoke": "smoke_", "load": "load_"}
_OWN = ("image", "request_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How vLLM is deployed and reached; see the file."""

    image: str
    model: str
    served_name: str
    tensor_parallel: int
    max_model_len: int
    gpu_memory_utilization: float
    arguments: tuple[str, ...]
    port: int
    shm_gib: int
    token_secret: str
    reach: Literal["port-forward", "service-proxy", "url"]
    url: str
    parallel: int
    schedule_s: float
    ready_s: float
    restarts: int
    cleanup_s: float
    total_s: float
    env: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    volume: dict[str, Any] = field(default_factory=dict)
    claim: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _need(self.tensor_parallel >= 1 and self.parallel >= 1, "tensor_parallel and parallel of 1 or more")
        _need(0 < self.gpu_memory_utilization <= 1, "gpu_memory_utilization between 0 and 1")
        _need(not (self.volume and self.claim), "volume or claim, not both")
        _need(not self.token_secret or self.token_secret.count("/") == 2, "token_secret as namespace/name/key")
        _need(self.reach != "url" or bool(self.url), "a url where servers are reached by one")

    @property
    def name(self) -> str:
        """The name that the model is served by."""
        return self.served_name or self.model

    @property
    def storage(self) -> dict[str, Any]:
        """The volume source with the weights; empty when they come from the hub."""
        return {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}} if self.claim else self.volume


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeSettings:
    """The smoke request; see the file."""

    prompt: str
    expect: str
    tokens: int
    request_s: float

    def __post_init__(self) -> None:
        try:
            re.compile(self.expect)
        except re.error as error:
            _need(False, f"a regular expression as smoke_expect ({error})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The load of AIPerf; see the file."""

    image: str
    package: str
    tokenizer: str
    endpoint: Literal["chat", "completions"]
    input_tokens: int
    output_tokens: int
    concurrency_per_gpu: int
    warmup_per_concurrency: float
    requests_per_concurrency: int
    least_requests: int
    dataset_entries: int
    seed: int
    request_s: float
    timeout_s: float
    repeats: int

    def __post_init__(self) -> None:
        least = min(self.input_tokens, self.concurrency_per_gpu, self.requests_per_concurrency, self.repeats)
        _need(least >= 1 and self.output_tokens >= 2, "a load of one request, one token in and two out at least")
        _need(self.warmup_per_concurrency >= 0, "a warm-up that is not negative")

    def concurrency(self, gpus: int) -> int:
        """Requests at a time for so many GPUs."""
        return self.concurrency_per_gpu * gpus

    def requests(self, gpus: int) -> int:
        """Requests of a measured run."""
        return max(self.least_requests, self.requests_per_concurrency * self.concurrency(gpus))

    def warmup(self, gpus: int) -> int:
        """Requests before it, not measured."""
        return round(self.warmup_per_concurrency * self.concurrency(gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What is judged by; see the file."""

    slack: float
    ttft_percentile: int
    tpot_percentile: int
    peer_tolerance: float
    peer_spreads: float
    peers_least: int
    cohort_share: float

    def __post_init__(self) -> None:
        known = (50, 75, 90, 95, 99)
        _need({self.ttft_percentile, self.tpot_percentile} <= set(known), f"percentiles of {known}")
        _need(0 <= self.slack < 1, "a slack between 0 and 1")

    @property
    def peers(self) -> PeerLimits:
        """The parts of the peer rule."""
        return PeerLimits(
            tolerance=self.peer_tolerance, spreads=self.peer_spreads, least=self.peers_least, share=self.cohort_share
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What a deployment has to reach; 0 is not stated."""

    throughput_per_gpu: float = 0.0
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SloLoad:
    """The load that the figures of `slos` are for; another one needs bounds of its own."""

    input_tokens: int
    output_tokens: int
    concurrency_per_gpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """How a server that dies is understood."""

    words: str
    cause: str
    final: bool
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All of it; saved with the observation, so that a verdict can be computed again."""

    server: ServerSettings
    smoke: SmokeSettings
    load: LoadSettings
    judge: JudgeSettings
    slo: Slo
    slo_load: SloLoad
    slos: dict[str, dict[str, Slo]]
    server_errors: tuple[ServerError, ...]

    def slo_of(self, accelerator: str) -> tuple[Slo, str]:
        """Return the bounds for an accelerator, and where they come from; 0 where nobody states one."""
        comparable = asdict(self.slo_load).items() <= asdict(self.load).items()
        known = self.slos.get(self.server.model, {}).get(accelerator, Slo()) if comparable else Slo()
        stated = self.slo
        found = Slo(
            throughput_per_gpu=stated.throughput_per_gpu or known.throughput_per_gpu,
            ttft_ms=stated.ttft_ms or known.ttft_ms,
            tpot_ms=stated.tpot_ms or known.tpot_ms,
        )
        return found, "the site's SLO" if stated != Slo() else f"{self.server.model} on {accelerator}"

    def understand(self, log: str) -> ServerError | None:
        """Return what a server's last words mean; None if nothing known."""
        flat = " ".join(log.split())
        return next((error for error in self.server_errors if re.search(error.words, flat)), None)


def load_rules(stated: dict[str, Any]) -> Rules:
    """Return the rules with a site's values in place of those that ship.

    Settings of `smoke` and `load` that have the name of one of `server` are called smoke_* and load_*.

    Raises:
        InputError: an unknown setting, or a value of the wrong kind.
    """
    data = read_yaml(_FILE)
    shipped = decode(Rules, data, str(_FILE))
    places = _places(shipped)
    values = {part: _plain(asdict(getattr(shipped, part))) for part in _PARTS}
    slo = asdict(shipped.slo)
    for name, value in stated.items():
        if name == "slo" and isinstance(value, dict):
            slo |= value
            continue
        if name not in places:
            raise InputError(
                f"settings of {GATE}", f"there is no setting {name!r}.", nearest_hint(name, [*places, "slo"])
            )
        part, inner = places[name]
        values[part][inner] = value
    return decode(Rules, {**data, **values, "slo": slo}, f"settings of {GATE}")


def _places(shipped: Rules) -> dict[str, tuple[str, str]]:
    """Where each setting belongs."""
    places: dict[str, tuple[str, str]] = {}
    for part in _PARTS:
        for inner in asdict(getattr(shipped, part)):
            prefixed = part == "smoke" or inner in _OWN
            places[f"{_PREFIXED.get(part, '')}{inner}" if prefixed else inner] = (part, inner)
    return places


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise InputError(f"settings of {GATE}", f"{what} is expected.", "correct gpufleet_settings")
