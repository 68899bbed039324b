# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How gate facility reads and judges the BMCs of a large fleet: .cache/venv/bin/python bench/bmcs.py

    python bench/bmcs.py [--hosts 125,250,500,1000] [--at-once 16] [--answer-ms 50]

So many simulated BMCs listen on ports of their own, with TLS, in a process of their own, and take `--answer-ms` for
each answer; one of a hundred takes no connection. The gate reads them as in a run and judges what they said. Measured
is the time by the clock beside the least that is possible (answers of all BMCs one after the other, `--at-once` BMCs at
a time), the CPU time and memory of the gate's process, how many BMCs answered at a time, and the CPU time of judging
with the exponent of its growth. A fleet of which another BMC is not read, or a host is judged otherwise than its BMC
deserves, ends the benchmark with 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]
EXPONENT, TIMES_LEAST, CPU_MS, JUDGE_S, MEMORY_MB = 1.1, 1.5, 60.0, 5.0, 400
_SILENT_EACH = 100
_SERVER_S = 60.0


class _Counted:
    """How many BMCs answered somebody at the same time."""

    def __init__(self) -> None:
        self._lock, self._now, self.most = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._now -= 1


def serve_bmcs(hosts: int, answer_s: float) -> None:
    """Serve BMCs until standard input ends; print their ports, and at the end how many were read at a time."""
    import resource

    from bmcs import LOGIN

    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
    from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.plan import (
        AUTHORITY,
        write_certificates,
    )
    from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.server import (
        Certificates,
        Controller,
        Port,
        serve,
    )
    from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import bmc_of

    counted = _Counted()

    class Slow(Controller):
        def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
            with counted:
                time.sleep(answer_s)
            return super().answer(method, path, token, body)

    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    sku = load_hardware([ROOT / "recipes/hardware"])["dgx-h100"]
    with tempfile.TemporaryDirectory(prefix="gpufleet-bmcs-") as directory:
        certificates = Certificates(files=write_certificates(Path(directory)))
        ports = [Port(0, Slow(bmc_of(sku, n), f"S-{n}", LOGIN), certificates) for n in range(hosts)]
        said = {"ports": [port.server_address[1] for port in ports], "ca_cert": str(Path(directory) / AUTHORITY)}
        print(json.dumps(said), flush=True)
        ended = threading.Event()
        threading.Thread(target=serve, args=(ports, ended), daemon=True).start()
        sys.stdin.read()
        ended.set()
        left = sum(port.controller.open_sessions for port in ports)
        print(json.dumps({"most": counted.most, "sessions_left": left}), flush=True)


def read_fleet(ports: Sequence[int], ca_cert: str, at_once: int) -> dict[str, float]:
    """Read and judge the fleet in this process, and return what it took."""
    import resource

    from bmc_fleet import CHECKS, HARDWARE, TODAY
    from bmcs import LOGIN
    from sites import make_site

    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_bmcs
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.observe_bmcs import SeenBmcs
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

    silent = range(0, len(ports), _SILENT_EACH)
    hosts = tuple(
        # Port 1 is nobody's.
        Host(
            name=f"gpu{n:05}", sku="dgx-h100", node_name=f"gpu{n:05}", rack=f"r{n // 4:04}",
            bmc=f"https://127.0.0.1:{1 if n in silent else port}",
        )
        for n, port in enumerate(ports)
    )  # fmt: skip
    access = {"user": LOGIN.user, "password": LOGIN.password, "ca_cert": ca_cert, "at_once": at_once}
    words = ("bmc", "bmc_address")
    site = make_site(hosts, name="large", settings={"bmc-reached": access}, capabilities=words)
    with tempfile.TemporaryDirectory(prefix="gpufleet-bmcs-") as directory:
        context = ObserveContext(site=site, run_dir=Path(directory), today=TODAY, hardware=HARDWARE)
        began, spent = monotonic(), process_time()
        seen = observe_bmcs.observe(context)
        reading_s, reading_cpu_s = monotonic() - began, process_time() - spent
        saved = json.loads(json.dumps(to_plain(seen)))
    around = JudgeContext(gate="facility", site=site, today=TODAY, hardware=HARDWARE)
    turns = []
    # The least of three: collecting what reading left is no work of judging.
    for _turn in range(3):
        gc.collect()
        spent = process_time()
        restored = from_plain(SeenBmcs, saved, "observation bmcs")
        outcomes = [outcome for check in CHECKS for outcome in check.judge(restored, around)]
        turns.append(process_time() - spent)
    judging_s = min(turns)
    read = [bmc for bmc in seen.bmcs if bmc.facts is not None]
    passed = {o.subjects[0].name for o in outcomes if o.status.value == "passed"}
    wrong = passed & {hosts[n].name for n in silent}
    wrong |= {o.subjects[0].name for o in outcomes if o.status.value != "passed"} - {hosts[n].name for n in silent}
    return {
        "read": len(read), "silent": len(silent), "wrong": len(wrong), "answers": sum(bmc.reads for bmc in read),
        "reading_s": reading_s, "cpu_s": reading_cpu_s, "judging_s": judging_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def measure(hosts: int, at_once: int, answer_s: float) -> dict[str, float]:
    """Return what a fleet takes, read in a fresh process."""
    command = [sys.executable, __file__, "--hosts", str(hosts), "--answer-ms", str(answer_s * 1000), "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin and server.stdout
        said = server.stdout.readline()
        reader = [sys.executable, __file__, "--at-once", str(at_once), "--read"]
        done = subprocess.run(reader, input=said, check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        rest, _errors = server.communicate(timeout=_SERVER_S)
    return found | json.loads(rest.splitlines()[-1])


def _judged(hosts: int, found: dict[str, float], at_once: int, answer_s: float) -> bool:
    """Print the line of a fleet; return whether it keeps the budgets."""
    # Beside the resources, each session is begun and ended.
    least_s = (found["answers"] + 2 * found["read"]) * answer_s / at_once
    cpu_ms = 1000 * found["cpu_s"] / hosts
    times = found["reading_s"] / least_s
    over = [
        word
        for word, bad in (
            ("not read", found["read"] != hosts - found["silent"]), ("wrong", found["wrong"] > 0),
            ("at once", found["most"] > at_once), ("sessions left", found["sessions_left"] > 0),
            ("time", times > TIMES_LEAST), ("cpu", cpu_ms > CPU_MS), ("judging", found["judging_s"] > JUDGE_S),
            ("memory", found["peak_mb"] > MEMORY_MB),
        )
        if bad
    ]  # fmt: skip
    print(
        f"  {hosts:6}{found['reading_s']:11.1f}{times:9.2f}{found['most']:9.0f}{cpu_ms:9.1f}{found['judging_s']:10.2f}"
        f"{found['peak_mb']:8.0f}{'   OVER: ' + ', '.join(over) if over else ''}",
        flush=True,
    )
    return not over


def main(arguments: Sequence[str]) -> int:
    """Print the figures beside their budgets; 1 if one is over."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--hosts", default="125,250,500,1000")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--answer-ms", type=float, default=50.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    sizes, answer_s = [int(word) for word in given.hosts.split(",")], given.answer_ms / 1000
    if given.serve:
        serve_bmcs(sizes[0], answer_s)
        return 0
    if given.read:
        said = json.loads(sys.stdin.read())
        print(json.dumps(read_fleet(said["ports"], said["ca_cert"], given.at_once)))
        return 0
    print("   hosts  reading s  x least  at once  cpu ms  judging s      MB")
    kept, judging = True, {}
    for hosts in sizes:
        found = measure(hosts, given.at_once, answer_s)
        judging[hosts] = found["judging_s"]
        kept = _judged(hosts, found, given.at_once, answer_s) and kept
    if len(sizes) > 1:
        slope = math.log(judging[sizes[-1]] / judging[sizes[-2]]) / math.log(sizes[-1] / sizes[-2])
        kept = kept and slope <= EXPONENT
        print(f"  exponent of judging at the end: {slope:.2f}")
    print(
        f"  budgets: {TIMES_LEAST:g} times the least, {given.at_once} at once, {CPU_MS:g} ms a host, {JUDGE_S:g} s, "
        f"{MEMORY_MB} MB, exponent {EXPONENT:g}"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
