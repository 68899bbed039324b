# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A secret of every kind in every field that is written out by a verb of its own: packs for vendors, snapshots,
baselines, values of charts, notes and settings of a run. `test_canaries.py` follows fewer kinds through a whole run."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

from archives import files_in, unpack
from secret_kinds import KINDS, leaked
from snapshot_api import Json, cluster_of, everything, node, pod

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    read_evidence,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import (
    accept_run,
    acceptance_lines,
    take_back,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge, rewrite_reports
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rma.app import RmaRequest, make_pack
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import RUN_FILE, dump
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import record_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import redact_data
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.baselines import open_baselines

SAVED = Path(__file__).resolve().parents[5] / "data" / "saved_runs"
# Everything that any of them may stand behind.
ALL = "\n".join(planted.text for planted in KINDS)


def saved(directory: Path, name: str) -> Run:
    unpack(SAVED / f"0.1.0_{name}.tar.xz", directory)
    return Run(directory)


def written(directory: Path) -> dict[str, list[str]]:
    """Return by file the kinds whose secret is in it."""
    found = {path.name: leaked(path.read_bytes().decode("utf-8", "replace"))
             for path in directory.rglob("*") if path.is_file()}  # fmt: skip
    return {name: kinds for name, kinds in found.items() if kinds}


def test_a_pack_for_a_vendor_holds_none(tmp_path: Path) -> None:
    run = saved(tmp_path / "20261102T000000Z-bad0", "missing_gpu")
    seen = read_evidence(run.path / "evidence" / "hosts" / "gpu02.json")
    first = next(iter(seen.tools))
    tools = {**seen.tools, first: replace(seen.tools[first], stdout=ALL, stderr=ALL, argv=("sh", "-c", ALL))}
    write_evidence(run.path, replace(seen, tools=tools, reason=ALL))
    report, zipped = tmp_path / "dmesg.txt", tmp_path / "nvidia-bug-report.log.gz"
    report.write_text(ALL, encoding="utf-8")
    zipped.write_bytes(gzip.compress(ALL.encode()))
    # Each alone as well: in a text of many the rule of one may hide that another has none.
    for planted in KINDS:
        pack = make_pack(run, RmaRequest(subject="gpu02", case=planted.text, contact=planted.text))
        assert leaked(pack.page) == []
    pack = make_pack(run, RmaRequest(subject="gpu02", case=ALL, contact=ALL, files=(report, zipped)))
    files = files_in(pack.archive())
    assert f"added/{zipped.name}" in files
    plain = {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}
    assert {name: leaked(data.decode()) for name, data in plain.items() if leaked(data.decode())} == {}
    assert written(run.path) == {}


def test_a_snapshot_holds_none() -> None:
    labels = {f"example.org/{planted.kind}": planted.text for planted in KINDS}
    first = {**node("gpu01", **labels)}
    first["spec"] = {**first.get("spec", {}), "providerID": ALL}
    api = everything([first], [pod("a-1", ("DaemonSet", "a"), "https://bob:7hunter2hunter2@reg.example.org/a:1")])
    driver: Json = {
        "metadata": {"name": "own"},
        "spec": {
            "env": [{"name": planted.kind, "value": planted.text} for planted in KINDS],
            "args": [planted.text for planted in KINDS],
            "config": ALL,
        },
    }
    api.lists["/apis/nvidia.com/v1alpha1/nvidiadrivers"] = [driver]
    text = to_text(collect_cluster(cluster_of(api), "gpufleet.bringup 0.0.0"))
    assert "NVIDIADriver own" in text and "example.org/jwt" in text
    assert leaked(text) == [] and "hunter2" not in text


def test_who_accepts_a_baseline_and_why_hold_none(tmp_path: Path) -> None:
    run = saved(tmp_path / "runs" / "r-1", "healthy")
    place = tmp_path / "history" / "history.sqlite"
    place.parent.mkdir()
    store = open_baselines(place)
    for number, planted in enumerate(KINDS, 1):
        accept_run(run, store, ["fabric_validation"], planted.text, planted.text, check_mode=False)
        shown = [take_back(store, number, planted.text, planted.text, check_mode=False)]
        shown += acceptance_lines(store.accepted_runs(run.record.site, rehearsal=True))
        assert leaked("\n".join(shown)) == []
    assert written(place.parent) == {}


def test_settings_notes_and_the_command_of_a_run_and_values_of_charts_hold_none(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", "missing_gpu")
    settings = {
        "inference_acceptance": {
            "server": {
                "arguments": [planted.text for planted in KINDS],
                "env": {f"OURS_{number}": planted.secret for number, planted in enumerate(KINDS)},
                "volume": {"note": ALL},
            }
        }
    }
    run.save_site(replace(run.site, settings={**run.site.settings, **settings}))
    values = {"config": ALL, **{f"file-{planted.kind}": planted.text for planted in KINDS}}
    values["extraEnv"] = [{"name": planted.kind, "value": planted.text} for planted in KINDS]
    recipe = json.loads((run.path / RUN_FILE).read_text("utf-8"))
    recipe["componentRefs"][0]["values"] = values
    (run.path / RUN_FILE).write_text(dump(redact_data(recipe), run.path / RUN_FILE), encoding="utf-8")
    given = [entry for planted in KINDS for entry in ("-e", json.dumps({"note": planted.text}))]
    command = command_line(["ansible-playbook", "site.yml", *given], {}, tmp_path)
    run.save_record(replace(run.record, command=command, notes=tuple(planted.text for planted in KINDS)))
    assert "[redacted]" in (run.path / "run.json").read_text("utf-8")
    assert written(run.path) == {} and leaked("\n".join(closing_lines(run.record, run.path))) == []
    # Judged again and kept: the history, and the pages that are written anew.
    run.reload()
    record, differences = rejudge(run)
    rewrite_reports(run, record, differences)
    said: list[str] = []
    for verdict in record.gates:
        record_history(run, verdict, str(tmp_path / "history.sqlite"), said.append, said.append, converged=True)
    assert written(tmp_path) == {} and leaked("\n".join([*said, *differences])) == []
