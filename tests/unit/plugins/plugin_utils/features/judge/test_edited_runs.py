# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An edited or cut record of a saved run is no verdict: no edit brightens what the run said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from digested import as_of_this_release
from old_runs import count_checks, drop_checks, without_unrecorded
from seeds import drawing
from thinned import HEALTHY, remembered
from thinning import AT_THE_TOP, by_kind, pieces_of, without

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import acceptable_figures
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge, rewrite_reports
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import PublishedBusbw
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.digests import NONE_KEPT, changed_files
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.own_limits import own_limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.version import COLLECTION
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    Work,
    all_passed,
    nothing_holds,
    run_summary,
    with_verb,
)

ARCHIVES = Path(__file__).resolve().parents[5] / "data" / "saved_runs"
TOP = ("run.json", "site.json", "baseline.json", "cluster.json", "recipe.json", "hardware.json", "settings.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The healthy run in the form of this release; never changed."""
    directory = tmp_path_factory.mktemp("healthy")
    unpack(HEALTHY, directory)
    as_of_this_release(directory)
    with remembered():
        yield directory


@pytest.fixture
def healthy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the healthy run."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A healthy run of the first release."""
    unpack(ARCHIVES / "0.1.0_healthy.tar.xz", tmp_path / "run")
    without_unrecorded(tmp_path / "run")
    return tmp_path / "run"


def words(run_dir: Path, names: tuple[str, ...], old: str, new: str) -> None:
    """Replace a word in files of a run."""
    for path in (run_dir / name for name in names):
        if path.is_file():
            path.write_text(path.read_text("utf-8").replace(old, new), encoding="utf-8")


def real(run_dir: Path, names: tuple[str, ...]) -> None:
    words(run_dir, names, '"rehearsal": true', '"rehearsal": false')


def everywhere(run_dir: Path) -> tuple[str, ...]:
    return tuple(str(path.relative_to(run_dir)) for path in run_dir.rglob("*.json"))


def edit(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def judged(run_dir: Path) -> tuple[RunRecord, list[str]]:
    return rejudge(Run(run_dir))


def test_a_run_of_this_release_is_confirmed(healthy: Path) -> None:
    record, differences = judged(healthy)
    assert differences == [] and all_passed(record) and NONE_KEPT not in record.notes


def test_a_run_without_digests_is_judged_and_says_so(first: Path) -> None:
    record, differences = judged(first)
    assert differences == [] and record.notes[-1] == NONE_KEPT


@pytest.mark.parametrize("names", [("run.json",), ("run.json", "site.json"), TOP, None])
def test_no_word_makes_a_rehearsal_an_acceptance(healthy: Path, names: tuple[str, ...] | None) -> None:
    real(healthy, names or everywhere(healthy))
    record, differences = judged(healthy)
    assert record.rehearsal and differences and not nothing_holds(record)
    assert run_summary(record).startswith("REHEARSAL NOT CONFIRMED")
    rewrite_reports(Run(healthy), record, differences)
    for name in ("report.md", "report.html"):
        text = (healthy / name).read_text("utf-8")
        assert "REHEARSAL" in text and "accepted 2 of 2" not in text
    metrics = (healthy / "metrics.prom").read_text("utf-8")
    assert 'rehearsal="true"' in metrics and 'rehearsal="false"' not in metrics


@pytest.mark.parametrize("names", [("run.json",), ("run.json", "site.json"), None])
def test_nor_does_it_in_a_run_of_the_first_release(first: Path, names: tuple[str, ...] | None) -> None:
    """Where every word of it is gone, it is not known whether the cluster was a real one."""
    real(first, names or everywhere(first))
    record, differences = judged(first)
    assert not nothing_holds(record) and "accepted" not in run_summary(record)
    assert any("rehearsal" in line or "real cluster" in line for line in differences)


@pytest.mark.parametrize(
    "gone", ["cluster.json", "site.json", "ctrf", "observations", "evidence", "digests.json", "declared.json"]
)
def test_evidence_that_was_removed_is_missed(healthy: Path, gone: str) -> None:
    real(healthy, ("run.json",))
    path = healthy / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    record, differences = judged(healthy)
    assert differences and not nothing_holds(record)
    assert "accepted" not in run_summary(record)


def test_the_page_of_an_edited_run_names_what_is_not_confirmed_and_what_to_do(healthy: Path) -> None:
    def fail(suite: Any) -> None:
        suite["results"]["tests"][0]["status"] = "failed"

    edit(healthy / "ctrf/fabric_validation.json", fail)
    record, differences = judged(healthy)
    assert len(differences) == 2 and str(healthy) not in " ".join(differences)
    rewrite_reports(Run(healthy), record, differences)
    page = (healthy / "report.html").read_text("utf-8")
    head, held = page.partition('<h2 id="held">')[::2]
    held = held.partition("</section>")[0]
    assert "2 differences to what was recorded" in head and "recorded results" not in page
    assert "on ctrf/fabric_validation.json, gate fabric_validation: restore the run from the copy" in head
    assert "ctrf/fabric_validation.json: was changed since the last verdict" in held and "restore the run" in held
    assert "Files of this run that were changed since the last verdict:" in head
    assert "that cannot be read" not in page and "No result yet" not in page
    assert "Do next: restore the run" in (healthy / "report.md").read_text("utf-8")


def test_the_page_of_a_confirmed_run_asks_for_nothing_and_a_broken_file_is_not_called_changed(healthy: Path) -> None:
    rewrite_reports(Run(healthy), *judged(healthy))
    page = (healthy / "report.html").read_text("utf-8")
    assert "restore the run" not in page and "Files of this run that" not in page
    (healthy / "ctrf/fabric.json").write_text("{", "utf-8")
    rewrite_reports(Run(healthy), Run(healthy).record, [])
    assert "Files of this run that cannot be read:" in (healthy / "report.html").read_text("utf-8")


def test_results_of_a_check_cannot_be_taken_out(healthy: Path) -> None:
    dropped = drop_checks(healthy, "nodes", {"dcgm-diag"})
    count_checks(healthy, "nodes", -1, -dropped)
    record, differences = judged(healthy)
    assert any("dcgm-diag on gpu01: recorded nothing, computed passed" in line for line in differences)
    assert "ctrf/nodes.json: was changed since the last verdict" in differences
    assert record.gate("nodes").status.value == "other" and not nothing_holds(record)


def failing(run_dir: Path) -> None:
    """Let the diagnostic of a host have failed, in its evidence alone."""
    path = run_dir / "evidence" / "hosts" / "gpu01.json"

    def change(document: Any) -> None:
        tool = document["tools"]["dcgmi_diag"]
        tool["stdout"] = tool["stdout"].replace("Pass", "Fail", 1)

    edit(path, change)


@pytest.mark.parametrize("results", ["there", "taken out"])
def test_a_check_that_fails_in_the_evidence_is_found(first: Path, results: str) -> None:
    failing(first)
    if results == "taken out":
        dropped = drop_checks(first, "nodes", {"dcgm-diag"})
        count_checks(first, "nodes", -1, -dropped)
    record, differences = judged(first)
    assert any("dcgm-diag on gpu01" in line and "computed failed" in line for line in differences)
    assert not record.gate("nodes").opens_next and not nothing_holds(record)
    assert "NOT CONFIRMED" in run_summary(record)


def cut(document: Any) -> None:
    counters = document["settings"]["host-state-after-nccl"]["port_counters"]["value"]
    document["settings"]["host-state-after-nccl"]["port_counters"]["value"] = dict(list(counters.items())[:1])


WAIVER = {"check": "dcgm-diag", "subject": "gpu01", "reason": "r", "who": "w", "until": "2099-01-01"}
CHANGES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a setting that was cut": ("settings.json", cut),
    "a limit": ("settings.json", lambda d: d["settings"]["clock-sync"]["clock_offset_s"].update(value=9)),
    "a waiver": ("site.json", lambda d: d["waivers"].append(WAIVER)),
    "another scope": ("run.json", lambda d: d.update(scope=d["scope"][:2])),
    "another day": ("run.json", lambda d: d.update(started="2026-11-20T05:38:25.711Z")),
    "fewer nodes": ("run.json", lambda d: d.update(nodes=1)),
    "a status": ("run.json", lambda d: d["gates"][3].update(status="skipped")),
    "no digest": ("run.json", lambda d: d.update(digests="")),
    "an older form": ("run.json", lambda d: d.update(schema_version=1)),
    "fewer declared checks": ("declared.json", lambda d: d["nodes"].remove("dcgm-diag")),
    "a digest": ("digests.json", lambda d: d.update({"site.json": "0" * 64})),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(CHANGES))
def test_an_edit_is_named_and_ends_the_verdict(healthy: Path, what: str) -> None:
    file, change = CHANGES[what]
    edit(healthy / file, change)
    record, differences = judged(healthy)
    if what == "an older form":
        assert differences == [] and all_passed(record), "its files are as their digests say all the same"
        return
    assert any(file in line or "gpu_stack" in line for line in differences)
    assert not nothing_holds(record) and "NOT CONFIRMED" in run_summary(record)


def test_a_record_of_a_later_release_is_refused(healthy: Path) -> None:
    edit(healthy / "run.json", lambda d: d.update(schema_version=3))
    with pytest.raises(InputError, match="its schema_version is 3, this release knows 1 and 2"):
        judged(healthy)


def test_figures_of_an_edited_run_become_no_baseline(healthy: Path) -> None:
    words(healthy, ("ctrf/fabric_validation.json",), '"value": 4', '"value": 5')
    assert changed_files(healthy, Run(healthy).record)
    with pytest.raises(InputError, match=r"ctrf/fabric_validation.json: was changed since the last verdict"):
        acceptable_figures(Run(healthy), ("fabric_validation",))


def test_no_piece_at_the_top_of_a_run_can_be_taken_away(healthy: Path) -> None:
    record, draw = Run(healthy).record, drawing("pieces at the top of a run")
    kinds = by_kind(pieces_of(healthy, numbers=True, starts=AT_THE_TOP))
    assert {piece.file for pieces in kinds.values() for piece in pieces} >= set(AT_THE_TOP) - {"baseline.json"}
    for kind in draw.sample(sorted(kinds), 60):
        piece = draw.choice(kinds[kind])
        path = healthy / piece.file
        text = path.read_text("utf-8")
        path.write_text(without(text, piece, as_json=True), encoding="utf-8")
        assert changed_files(healthy, record) == [f"{piece.file}: was changed since the last verdict"], piece.text
        path.write_text(text, encoding="utf-8")
    assert changed_files(healthy, record) == []


def test_a_piece_at_the_top_that_is_gone_holds_the_run(healthy: Path) -> None:
    edit(healthy / "hardware.json", lambda d: d.pop(next(iter(d))))
    record, differences = judged(healthy)
    assert "hardware.json: was changed since the last verdict" in differences and not nothing_holds(record)


def test_limits_that_are_not_the_releases_stand_beside_the_verdict(healthy: Path) -> None:
    def loosen(document: Any) -> None:
        settings = document["settings"]
        settings["fabric_validation"]["bad"] = {"value": 0.001, "sources": ["gpufleet_settings"]}
        settings["dcgm-diag"]["level"] = {"value": 0, "sources": ["release", "/own/thresholds/nodes.yaml"]}
        settings["clock-sync"]["clock_offset_s"] = {"value": 0.002, "sources": ["release"]}

    edit(healthy / "settings.json", loosen)
    run = Run(healthy)
    run.save_record(replace(run.record, own_limits=own_limits(run)))
    limits = run.record.own_limits
    assert {"fabric_validation.bad 0.001 (release: 0.75)", "dcgm-diag.level 0 (release: 3)"} <= set(limits)
    assert not any("clock" in line for line in limits), "what only the release stated was its limit then"
    for name in ("report.md", "report.html"):
        text = (healthy / name).read_text("utf-8")
        assert "fabric\\_validation.bad 0.001" in text or "fabric_validation.bad 0.001" in text
        assert "other than the release" in text
    edit(healthy / "run.json", lambda d: d.update(own_limits=[]))
    assert judged(healthy)[0].own_limits == limits, "computed again from the settings"


@pytest.mark.parametrize(
    ("verb", "told"), [("", True), ("roll", True), ("continuous validation", False), ("burn-in", False)]
)
def test_a_limit_of_a_gate_that_the_verb_does_not_judge_is_none_of_its_run(
    healthy: Path, verb: str, told: bool
) -> None:
    def shorten(document: Any) -> None:
        document["settings"]["gpu_stack"]["stays_ready_s"] = {"value": 1.0, "sources": ["gpufleet_settings"]}
        document["settings"]["fabric_validation"]["bad"] = {"value": 0.001, "sources": ["gpufleet_settings"]}

    edit(healthy / "settings.json", shorten)
    run = Run(healthy)
    run.save_record(with_verb(run.record, verb) if verb else run.record)
    limits = own_limits(run)
    assert any(line.startswith("gpu_stack.stays_ready_s 1.0 ") for line in limits) is told
    assert any(line.startswith("fabric_validation.bad 0.001 ") for line in limits)


def test_facts_of_a_site_from_which_ceilings_follow_stand_beside_the_verdict(healthy: Path) -> None:
    """A private file below hardware/ may state any bandwidth: a tenth of the published one passes ten times slower."""
    run = Run(healthy)
    assert not [line for line in own_limits(run) if line.startswith("hardware ")], "the release's own facts"
    name = next(host.sku for host in run.site.in_scope)
    sku = run.hardware[name]
    lower = {kind: value / 10 for kind, value in sku.intra_node_busbw_gbps.items()}
    ours = PublishedBusbw(domains=3, gbps=1.5, size_bytes=1024, kind="plateau", source="our lab")
    published = (*sku.published_busbw, ours)
    facts = {"intra_node_busbw_gbps": lower, "published_busbw": published, "peak_tflops": {"bf16": 10.0}}
    run.save_hardware(run.hardware | {name: replace(sku, title="Ours", **facts)})
    limits = own_limits(Run(healthy))
    kind, value = next(iter(lower.items()))
    shipped = sku.intra_node_busbw_gbps[kind]
    assert f"hardware {name}.intra_node_busbw_gbps.{kind} {value} (release: {shipped})" in limits
    assert f"hardware {name}.published_busbw.3 domains 1024 B 1.5 (release: none)" in limits
    assert any(line.startswith(f"hardware {name}.peak_tflops.bf16 10.0 (release: ") for line in limits)
    assert not any("title" in line for line in limits)


def test_a_sku_that_the_release_does_not_know_is_judged_by_the_sites_own_facts_alone(healthy: Path) -> None:
    run = Run(healthy)
    name = next(host.sku for host in run.site.in_scope)
    hosts = tuple(replace(host, sku="ours-h100") if host.sku == name else host for host in run.site.hosts)
    run.save_hardware({**run.hardware, "ours-h100": replace(run.hardware[name], name="ours-h100")})
    run.save_site(replace(run.site, hosts=hosts))
    limits = own_limits(run)
    assert any(line.startswith("hardware ours-h100.intra_node_busbw_gbps") for line in limits)
    assert all(line.endswith("(release: none)") for line in limits if line.startswith("hardware "))


def test_who_took_words_of_the_profile_away_stands_in_report_and_sentence(healthy: Path) -> None:
    run = Run(healthy)
    taken = "not at this site (taken away by J. Doe in own/site_profiles.yaml)"
    run.save_site(replace(run.site, missing={**run.site.missing, "subnet_manager": taken, "bmc": "none here"}))
    run.save_record(replace(run.record, own_limits=own_limits(run)))
    (line,) = [line for line in run.record.own_limits if line.startswith("profile ")]
    assert "subnet_manager" in line and "J. Doe" in line
    assert "J. Doe in own/site_profiles.yaml" in run_summary(run.record)
    for name in ("report.md", "report.html"):
        assert "J. Doe" in (healthy / name).read_text("utf-8")


def test_facts_of_another_release_are_left_as_it_recorded_them(healthy: Path) -> None:
    run = Run(healthy)
    name = next(host.sku for host in run.site.in_scope)
    run.save_hardware(run.hardware | {name: replace(run.hardware[name], peak_tflops={"bf16": 10.0})})
    theirs = replace(run.record, versions={**run.record.versions, COLLECTION: "0.0.9"}, own_limits=("hardware x",))
    run.save_record(theirs)
    assert [line for line in own_limits(run) if line.startswith("hardware ")] == ["hardware x"]


def test_what_is_written_after_the_verdict_is_no_difference(healthy: Path) -> None:
    """The report of the whole run and the state of the site follow the verdict, and are made of what it covers."""
    assert changed_files(healthy, Run(healthy).record) == []
    for name in ("ctrf/all.json", "state.json"):
        (healthy / name).write_text("{}", encoding="utf-8")
    assert changed_files(healthy, Run(healthy).record) == []
    (healthy / "ctrf/another.json").write_text("{}", encoding="utf-8")
    assert changed_files(healthy, Run(healthy).record) == [
        "ctrf/another.json: was not there when the last verdict was recorded"
    ]


def test_a_file_of_any_kind_beside_the_results_is_covered_and_what_is_made_of_them_is_not(healthy: Path) -> None:
    """Reports, packs for vendors, locks and the statement follow the verdict; nothing else is added without notice."""
    for name in ("rma/gpu01.tar.gz", "junit/nodes.xml", "report.md", ".working.lock", "attestation.intoto.jsonl"):
        (healthy / name).parent.mkdir(exist_ok=True)
        (healthy / name).write_text("later", encoding="utf-8")
    assert changed_files(healthy, Run(healthy).record) == []
    for name in ("notes.txt", "more/table.csv", "evidence/hosts/junit"):
        (healthy / name).parent.mkdir(exist_ok=True)
        (healthy / name).write_text("added", encoding="utf-8")
    assert [line.partition(":")[0] for line in changed_files(healthy, Run(healthy).record)] == [
        "evidence/hosts/junit", "more/table.csv", "notes.txt",
    ]  # fmt: skip


def test_the_verdict_of_a_verb_does_not_stand_for_gates(healthy: Path) -> None:
    path = healthy / "run.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    plain["work"] = json.loads(dumps(Work(verb="burn_in")))
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert any("and of gates" in line for line in rejudge(Run(healthy))[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["componentRefs"].insert(0, None),
        lambda d: d.update(componentRefs={"a": 1}),
        lambda d: d["componentRefs"][0].update(manifests="x"),
        lambda d: d["componentRefs"][0].update(values=[1]),
        lambda d: d["componentRefs"][0].pop("name"),
        lambda d: d.update(constraints=[None]),
        lambda d: d.update(validation=[1]),
        lambda d: d.update(validation={"deployment": 5}),
        lambda d: d.update(validation={"deployment": {"constraints": ["x"]}}),
    ],
)
def test_a_recipe_of_another_shape_is_refused_in_a_sentence(healthy: Path, change: Callable[[Any], Any]) -> None:
    """Found by random edits: a component that is null crashed the judge."""
    edit(healthy / "recipe.json", change)
    with pytest.raises(InputError, match=r"recipe\.json"):
        assert Run(healthy).recipe


def test_hosts_that_gate_nodes_reads_anew_are_no_edit_before_its_verdict(healthy: Path) -> None:
    """An earlier gate had read a part of them."""
    host = next((healthy / "evidence/hosts").glob("*.json"))
    document = json.loads(host.read_text("utf-8"))
    host.write_text(json.dumps(document, indent=2), "utf-8")
    record = Run(healthy).record
    assert [line.partition(":")[0] for line in changed_files(healthy, record)] == [f"evidence/hosts/{host.name}"]
    begun = record.with_gate(replace(record.gate("nodes"), status=Status.PENDING))
    assert changed_files(healthy, begun) == []
    # Only these: any other file is as the last verdict left it.
    (healthy / "site.json").write_text((healthy / "site.json").read_text("utf-8") + " ", "utf-8")
    assert [line.partition(":")[0] for line in changed_files(healthy, begun)] == ["site.json"]
