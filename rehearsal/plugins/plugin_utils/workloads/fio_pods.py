# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fio on the shared volume: the pod's own command really runs once in a rehearsal.

Each node prints that report with the figures of the model.

fio's output for blocks that differ from what was written is in its verify.c (log_verify_failure) and io_u.c, and was
observed with fio 3.33 on a file that was changed between the two jobs: lines before the document, error 84 (EILSEQ) of
the job, exit code 1.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..model.values import Node
from .performance import StorageSpeed, performance
from .pod_simulator import STDERR, STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, env_of, words_of

FIO_VARIABLE, LIBRARIES_VARIABLE = "GPUFLEET_REHEARSAL_FIO", "GPUFLEET_REHEARSAL_FIO_LIBRARIES"
_PROGRAM, _MARK = "storage.sh", "gpufleet-fio"
_RUN_S, _LIMIT_S = 0.3, 60.0
_EILSEQ = 84
_TAIL = 99.0
_MIB = 1 << 20
_RATES = ("bw_bytes", "bw", "iops", "bw_min", "bw_max", "bw_mean", "bw_dev", "iops_min", "iops_max", "iops_mean",
          "iops_stddev")  # fmt: skip
_COUNTS = ("io_bytes", "io_kbytes", "total_ios")
_SAMPLES: dict[tuple[str, ...], tuple[int, str, str]] = {}


class _Report(NamedTuple):
    """A report of fio, with the lines of the program before and after it."""

    before: list[str]
    document: dict[str, Any]
    after: list[str]


def handles(pod: Json) -> bool:
    words = words_of(pod)
    return bool(words) and words[-1] == _PROGRAM


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output of the only pod once it runs."""
    if not group.running:
        return None
    pod = group.running[0]
    node = context.model.node(pod["spec"]["nodeName"])
    code, out, err = _sample(pod, context)
    lines = [(STDERR, line) for line in err.splitlines()]
    report = _taken_apart(out) if code == 0 else None
    if report is None:
        # The actual result, not the model's.
        lines += [(STDOUT, line) for line in out.splitlines()]
        return {pod["metadata"]["name"]: PodOutput(lines=tuple(lines), exit_code=code or 1, run_s=_RUN_S)}
    before, document, after = report.before, report.document, report.after
    draw = random.Random(f"{group.name} {node.name}")
    whole = context.model.stack
    for job in document["jobs"]:
        _scale_job(job, node, performance().storage, whole.storage_speed, draw.gauss(0, whole.storage_noise))
    reported, ended = _corrupted(document, env_of(pod)) if node.storage.corrupts else ([], 0)
    text = json.dumps(document, indent=2)
    printed = [*before, *reported, *text.split("\n"), *([*after[:-1], f"{_MARK} end 1"] if ended else after)]
    lines += [(STDOUT, line) for line in printed]
    return {pod["metadata"]["name"]: PodOutput(lines=tuple(lines), exit_code=ended, run_s=_RUN_S)}


def _sample(pod: Json, context: SimContext) -> tuple[int, str, str]:
    """Run the pod's own command in a directory of the rehearsal, once for all pods with the same request."""
    env, words, key = env_of(pod), words_of(pod), _key(pod, context)
    if key not in _SAMPLES:
        volume, programs = context.directory / "shared-volume", context.directory / "fio-bin"
        volume.mkdir(parents=True, exist_ok=True)
        _provide_fio(programs)
        own = {**os.environ, **env, "STORAGE_VOLUME": str(volume), "PATH": f"{programs}:{os.environ.get('PATH', '')}"}
        try:
            done = subprocess.run(
                words, env=own, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
            )
            _SAMPLES[key] = (done.returncode, done.stdout, done.stderr)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", f"the rehearsal could not run fio: {error}"
    return _SAMPLES[key]


def put_sample(pod: Json, context: SimContext, sample: tuple[int, str, str]) -> None:
    """Set an earlier report of the real fio (exit code, stdout, stderr) for the request of this pod."""
    _SAMPLES[_key(pod, context)] = sample


def _key(pod: Json, context: SimContext) -> tuple[str, ...]:
    own = ("STORAGE_NODE", "STORAGE_RUN")
    requested = (f"{key}={value}" for key, value in sorted(env_of(pod).items()) if key not in own)
    return (str(context.directory), *words_of(pod), *requested)


def _provide_fio(programs: Path) -> None:
    """Write a command `fio` that starts the real one with its own libraries, which no other program may get."""
    path, libraries = os.environ.get(FIO_VARIABLE, ""), os.environ.get(LIBRARIES_VARIABLE, "")
    if path:
        own = f"LD_LIBRARY_PATH='{libraries}' " if libraries else ""
        write_atomic(programs / "fio", f"#!/bin/sh\n{own}exec '{path}' \"$@\"\n", mode=0o755)


def _taken_apart(out: str) -> _Report | None:
    """Return the lines before the report's mark, the report, and the lines after it."""
    lines = out.split("\n")
    begin, end = f"{_MARK} begin", f"{_MARK} end 0"
    if begin not in lines or end not in lines:
        return None
    first, last = lines.index(begin), lines.index(end)
    try:
        document = json.loads("\n".join(lines[first + 1 : last]))
    except ValueError:
        return None
    return _Report(lines[: first + 1], document, lines[last : last + 1])


def _scale_job(
    job: dict[str, Any], node: Node, speeds: Mapping[str, StorageSpeed], everywhere: float, noise: float
) -> None:
    speed = speeds.get(job["jobname"])
    if speed is None:
        return
    part = node.storage.speed * everywhere * max(0.2, 1 + noise)
    for side in (job["read"], job["write"]):
        if side["total_ios"]:
            _scale_side(side, speed, (part, node.storage.tail), timed="runtime" in job.get("job options", {}))


def _scale_side(side: dict[str, Any], speed: StorageSpeed, how: tuple[float, float], *, timed: bool) -> None:
    """Scale one side of a job to the rate of the model. Latencies grow by the same factor."""
    part, tail = how
    factor = speed.mib_s * _MIB * part / side["bw_bytes"]
    slower = speed.p99_ms * 1e6 / part / max(1.0, side["clat_ns"].get("percentile", {}).get("99.000000", 1.0))
    for name in (*_RATES, *(_COUNTS if timed else ())):
        if name in side:
            whole = isinstance(side[name], int)
            side[name] = round(side[name] * factor) if whole else round(side[name] * factor, 6)
    if not timed:
        side["runtime"] = max(1, round(side["runtime"] / factor))
    for name in ("slat_ns", "clat_ns", "lat_ns"):
        values = side.get(name, {})
        for key in values:
            if key == "percentile":
                values[key] = {
                    point: round(value * slower * (tail if float(point) >= _TAIL else 1.0))
                    for point, value in values[key].items()
                }
            elif key != "N":
                values[key] = round(values[key] * slower, 6)


def _corrupted(document: dict[str, Any], env: Mapping[str, str]) -> tuple[list[str], int]:
    """Change the report so that one block of the second job was read back with other content."""
    job = next(job for job in document["jobs"] if job["jobname"] == "sequential-read")
    job["error"] = _EILSEQ
    place = f"{env.get('STORAGE_VOLUME', '')}/{env.get('STORAGE_DIRECTORY', '')}/data.1"
    return [
        f"crc32c: verify failed at file {place} offset 1048576, length 1048576 (requested block: offset=1048576, "
        "length=1048576, flags=8)",
        "       Expected CRC: de92a56d",
        "       Received CRC: f45bee57",
        "fio: pid=7896, err=84/file:io_u.c:2152, func=io_u_sync_complete, error=Invalid or incomplete multibyte or "
        "wide character",
    ], 1


SIMULATOR = PodSimulator(name="fio", handles=handles, simulate=simulate)
