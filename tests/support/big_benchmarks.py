# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the smaller tests of gate fabric_validation leave in a run of a healthy fleet: the DL unit test, and ranks."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from dl_unit_lines import lines_of, text_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.host_runs import HostRecord
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit import model as dl_unit
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import ID, DlUnitSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation import rank_model
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

GATE = "fabric_validation"


def _context(run: Run, today: date) -> ObserveContext:
    return ObserveContext(site=run.site, run_dir=run.path, today=today, hardware=run.hardware)


def unit_tests(run: Run, gpus: int, today: date) -> dl_unit.SavedObservation:
    """Write a log of the DL unit test for every host and return what the observer would have saved."""
    settings = _context(run, today).settings_of(ID, DlUnitSettings)
    as_asked = {"repeats": settings.repeats, "seed": settings.seed, "size": settings.size, "device": settings.device}
    records = []
    for number, host in enumerate(run.site.hosts):
        lines = lines_of(gpus, repeats=settings.repeats, prefix=f"GPU-{number:04}-")
        log = f"evidence/{GATE}/dl-unit-{host.name}.log"
        write_atomic(run.path / log, text_of([{**lines[0], **as_asked}, *lines[1:]]))
        records.append(HostRecord(name=f"dl-unit-{number}", host=host.name, attempt=1, state="succeeded", log=log))
    hosts = tuple(BenchmarkHost(name=host.name, node=host.node_name, sku=host.sku) for host in run.site.hosts)
    plan = dl_unit.Plan(hosts=hosts, settings=settings)
    return dl_unit.SavedObservation(plan=plan, records=tuple(records), made=len(records))


def ranks(run: Run, today: date) -> rank_model.SavedObservation:
    """Write what the ranks of one Job over all hosts saw of each other and return what the observer would have saved;
    each asks those at the distances 1, 2, 4 and so on (recipes/workloads/networking/ranks.py)."""
    settings = _context(run, today).settings_of(rank_model.CHECK_ID, rank_model.NetworkingSettings)
    count, log = len(run.site.hosts), f"evidence/{GATE}/ranks-1.log"
    apart = [1 << power for power in range(count.bit_length()) if 1 << power < count][: settings.peers]
    lines: list[dict[str, Any]] = []
    for index in range(count):
        lines.append({"event": "rank", "index": index, "ranks": count, "networks": {}, "devices": []})
        for step in apart:
            peer = (index + step) % count
            lines.append(
                {"event": "pair", "index": index, "peer": peer, "named": "ok", "reached": "ok", "networks": {}}
            )
        lines.append({"event": "end", "index": index})
    write_atomic(run.path / log, "".join(f"{json.dumps({'schema_version': 1, **line})}\n" for line in lines))
    hosts = tuple(rank_model.RankHost(name=host.name, node=host.node_name, sku=host.sku) for host in run.site.hosts)
    names = tuple(host.name for host in hosts)
    record = rank_model.Record(
        name="ranks-1", sku=hosts[0].sku, hosts=names, attempt=1, state="succeeded", log=log,
        places={name: index for index, name in enumerate(names)},
    )  # fmt: skip
    plan = rank_model.Plan(hosts=hosts, settings=settings)
    return rank_model.SavedObservation(plan=plan, records=(record,), made=1)
