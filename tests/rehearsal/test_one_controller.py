# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers at once, and controllers that are killed at any line: no test is lost, nothing of ours is left.

More points than the few of every run: `GPUFLEET_KILL_POINTS=100 make test ARGS=tests/rehearsal/test_one_controller.py`
(about 20 s each).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster_bench import ClusterBench, cluster_bench
from controller import STEPS
from seeds import drawing
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import is_locked
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import RUNNING, holder_of

OURS = "gpufleet.io/purpose=test"
POINTS = int(os.environ.get("GPUFLEET_KILL_POINTS", "2"))
# How long a controller is let go on after a step before it is killed: its tests take about that.
LONGEST_S = 6.0
LEASE_S = 8


@dataclass
class Controller:
    """A controller that runs."""

    process: subprocess.Popen[str]
    output: Path
    run_dir: Path

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def await_text(self, text: str) -> None:
        eventually(lambda: text in self.said() or self.process.poll() is not None, what=text)

    def ended(self, limit_s: float = 180) -> int:
        return self.process.wait(limit_s)

    def kill(self, *, keeper: bool) -> None:
        """Kill it, and with it its keeper, as a container engine does that takes a container away."""
        if keeper and is_locked(self.run_dir / RUNNING):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int((self.run_dir / RUNNING).read_text()), signal.SIGKILL)
        self.process.kill()
        self.process.wait(10)


@dataclass(frozen=True)
class Bench(ClusterBench):
    """A cluster of four nodes for controllers of any name."""

    def controller(
        self, repository: Path, name: str, host: str, *, lease_s: int = 180, wait_s: float = 0, longer_s: float = 0
    ) -> Controller:
        run_dir = self.directory / "runs" / name
        output = self.directory / f"{name}.log"
        argv = [sys.executable, str(repository / "tests" / "support" / "controller.py"), str(self.kubeconfig)]
        argv += [str(run_dir), host, str(lease_s), str(wait_s), str(longer_s)]
        environment = {**os.environ, "PYTHONPATH": str(repository / ".cache")}
        with output.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(argv, env=environment, stdout=stream, stderr=subprocess.STDOUT, text=True)
        return Controller(process, output, run_dir)

    def nothing_left(self) -> None:
        """Nothing of a test, and nobody holds the cluster."""
        for kind in (
            objects.NAMESPACES,
            objects.PODS,
            objects.JOBS,
            objects.PRIORITY_CLASSES,
            objects.NATIVE_POD_GROUPS,
        ):
            eventually(lambda kind=kind: not self.cluster.find_all(kind, labels=OURS), what=kind.title)
        eventually(lambda: not holder_of(self.cluster).holder, what="the Lease is given back")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    capacity = {"cpu": "224", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": "8"}
    with cluster_bench(Bench, tmp_path_factory.mktemp("rehearsal"), 4, {}, capacity) as bench:
        yield bench


@pytest.mark.long("chains of kills and restarts")
@pytest.mark.parametrize("point", range(POINTS))
def test_after_a_kill_at_any_line_a_run_from_another_host_passes(bench: Bench, repository: Path, point: int) -> None:
    draw = drawing(f"kill-{point}")
    step, pause_s, keeper = draw.choice(STEPS), draw.uniform(0, LONGEST_S), draw.random() < 0.5
    first = bench.controller(repository, f"first-{point}", "ctl1", lease_s=LEASE_S if keeper else 180)
    first.await_text(step)
    time.sleep(pause_s)
    first.kill(keeper=keeper)
    second = bench.controller(repository, f"second-{point}", f"ctl{point + 2}")
    where = f"killed {pause_s:.2f} s after it {step}, its keeper {'too' if keeper else 'not'}"
    assert second.ended() == 0, f"{where}\n{first.said()}\n--\n{second.said()}"
    bench.nothing_left()


def test_further_controllers_of_any_host_are_refused_or_wait_and_disturb_nothing(
    bench: Bench, repository: Path
) -> None:
    first = bench.controller(repository, "one", "ctl1", longer_s=18)
    first.await_text("tests")
    refused = [bench.controller(repository, f"refused-{host}", host) for host in ("ctl1", "ctl2")]
    waiting = bench.controller(repository, "waiting", "ctl1", wait_s=150)
    for other in refused:
        assert other.ended() == 4, other.said()
        assert "run one" in other.said() and "`make bring-up`" in other.said()
    assert first.ended() == 0, first.said()
    assert waiting.ended() == 0, waiting.said()
    bench.nothing_left()
