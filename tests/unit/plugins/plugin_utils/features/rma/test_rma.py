# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pack of a part that goes back: the right part, what accuses it, and nothing secret."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest
from archives import files_in, unpack

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import evidence_file, read_evidence
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import Moment, load_kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rma import app as rma
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rma.app import (
    PackFacts,
    RmaPack,
    RmaPart,
    RmaRequest,
    identity,
    kind_of,
    make_pack,
    render_page,
    write_pack,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Basis,
    Expectation,
    Outcome,
    Rating,
    Status,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nvidia_smi_xml
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run

ARCHIVES = Path(__file__).resolve().parents[5] / "data" / "saved_runs"


def saved_run(base: Path, name: str, directory: str) -> Run:
    """Unpack a saved run into a directory below `base`."""
    path = base / directory
    path.mkdir()
    unpack(ARCHIVES / f"0.1.0_{name}.tar.xz", path)
    return Run(path)


def accuse(run: Run, subject: str, kind: str) -> None:
    """Let the node's failed census be about a part of it, as a check of one GPU or adapter would say it."""
    path = run.path / "ctrf" / "nodes.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for test in document["results"]["tests"]:
        outcome = test["extra"]["outcome"]
        if outcome["check"] == "gpu-census" and outcome["status"] == "failed":
            outcome["subjects"] = [{"kind": kind, "name": subject, "node": subject.partition("/")[0]}]
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def bad(tmp_path: Path) -> Run:
    """A run in which gpu02 lists seven of its eight GPUs."""
    return saved_run(tmp_path, "missing_gpu", "20261102T000000Z-bad0")


def packed(pack: RmaPack) -> dict[str, bytes]:
    return files_in(pack.archive())


def test_a_pack_holds_the_page_the_tools_and_their_digests(bad: Run) -> None:
    pack = make_pack(bad, RmaRequest(subject="gpu02", case="00123456", contact="ops@example.org"))
    files = packed(pack)
    assert {"README.md", "results.json", "tools/nvidia_smi_xml.txt", "tools/dcgmi_diag.txt"} <= files.keys()
    page = files["README.md"].decode()
    assert "REHEARSAL" in page and "00123456" in page and "gpu-missing" in page
    for name, data in files.items():
        if name != "README.md":
            assert f"`{hashlib.sha256(data).hexdigest()}`" in page, name
    assert files["tools/nvidia_smi_xml.txt"].startswith(b"$ nvidia-smi -q -x")
    assert any("nvidia-bug-report" in text for text in pack.missing)
    # It is for a vendor, as text too: no command of ours, no signs that Markdown escapes, no claim about passes.
    assert "gpufleet_rma" not in page and "\\>" not in page and "no earlier failure of it is on record" in page
    assert (
        pack.archive()
        == make_pack(bad, RmaRequest(subject="gpu02", case="00123456", contact="ops@example.org")).archive()
    )


def test_a_gpu_that_is_gone_has_the_identity_that_an_earlier_run_saw(bad: Run, tmp_path: Path) -> None:
    """Numbers of the GPUs behind a missing one have moved: the tools' own number would name a healthy neighbour."""
    here = nvidia_smi_xml.parse(read_evidence(bad.path / "evidence/hosts/gpu02.json").tools["nvidia_smi_xml"].stdout)
    healthy = saved_run(tmp_path, "healthy", "20261101T000000Z-good")
    before = read_evidence(healthy.path / "evidence/hosts/gpu02.json")
    listed = nvidia_smi_xml.parse(before.tools["nvidia_smi_xml"].stdout).gpus
    (gone,) = {gpu.bus_id for gpu in listed} - {gpu.bus_id for gpu in here.gpus}
    number = [gpu.bus_id for gpu in listed].index(gone)
    accuse(bad, f"gpu02/gpu{number}", "gpu")
    page = make_pack(bad, RmaRequest(subject=f"gpu02/gpu{number}")).page
    assert str(listed[number].serial) in page and listed[number].uuid in page
    assert f"run {healthy.record.run_id}, the last that saw the part" in page
    for neighbour in here.gpus:
        assert neighbour.uuid not in page


def test_readings_around_loads_go_in(tmp_path: Path) -> None:
    slow = saved_run(tmp_path, "slow_gpu_and_slow_server", "20261103T000000Z-slow")
    for host in ("gpu01", "gpu02"):
        reading = slow.path / evidence_file(host, load_kind("training_acceptance", "after"))
        reading.parent.mkdir(parents=True, exist_ok=True)
        reading.write_text(f"{host} password=hunter2-of-mine", encoding="utf-8")
    pack = make_pack(slow, RmaRequest(subject="gpu01"))
    assert {outcome.cause for outcome in pack.against} == {"slow-gpu"}
    loads = {name: data for name, data in pack.files.items() if name.startswith("load-")}
    assert loads.keys() == {"load-training_acceptance-after.json"}
    assert b"gpu01" in loads["load-training_acceptance-after.json"]
    assert not any(b"hunter2" in data for data in loads.values())


def only(run: Run, *names: str, phases: tuple[str, ...] = ()) -> Run:
    """Leave the suites of these names alone, and let the run have gone through these phases."""
    for path in (run.path / "ctrf").glob("*.json"):
        if path.stem not in names:
            path.unlink()
    document = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    document["phases"] = [
        {**{name: value for name, value in document["gates"][2].items() if name != "headline"}, "gate": phase}
        for phase in phases
    ]
    (run.path / "run.json").write_text(json.dumps(document), encoding="utf-8")
    return Run(run.path)


def as_phase(run: Run, phase: str) -> None:
    """Let the results of gate nodes be those of a phase."""
    text = (run.path / "ctrf" / "nodes.json").read_text(encoding="utf-8")
    text = text.replace('"gate": "nodes"', f'"gate": "{phase}"').replace('"nodes"', f'"{phase}"')
    (run.path / "ctrf" / f"{phase}.json").write_text(text, encoding="utf-8")


def test_a_run_over_one_gate_is_packed(bad: Run) -> None:
    whole = make_pack(bad, RmaRequest(subject="gpu02"))
    assert make_pack(only(bad, "nodes"), RmaRequest(subject="gpu02")).against == whole.against


@pytest.mark.parametrize("phase", ["burn_in", "cycle-001"])
def test_what_failed_in_a_burn_in_or_a_cycle_is_packed(bad: Run, phase: str) -> None:
    accuse(bad, "gpu02/gpu3", "gpu")
    as_phase(bad, phase)
    pack = make_pack(only(bad, phase, phases=(phase,)), RmaRequest(subject="gpu02/gpu3"))
    assert {outcome.gate for outcome in pack.against} == {phase}


def test_what_failed_in_the_proof_of_a_wave_is_packed_from_there(bad: Run, tmp_path: Path) -> None:
    roll = saved_run(tmp_path, "healthy", "20261103T000000Z-roll")
    proof = roll.path / "waves" / "002"
    proof.parent.mkdir()
    bad.path.rename(proof)
    (roll.path / "waves" / "001").mkdir()
    pack = make_pack(only(roll), RmaRequest(subject="gpu02"))
    assert "gpu-missing" in pack.page and "tools/nvidia_smi_xml.txt" in pack.files


def test_a_host_that_was_read_only_around_a_load_has_the_identity_from_there(bad: Run, tmp_path: Path) -> None:
    """A burn-in reads GPUs before and after its hours, and does not go through gate nodes."""
    healthy = saved_run(tmp_path, "healthy", "20261101T000000Z-good")
    listed = (healthy.path / "evidence/hosts/gpu02.json").read_text(encoding="utf-8")
    lost = (bad.path / "evidence/hosts/gpu02.json").read_text(encoding="utf-8")
    listed = listed.replace(healthy.record.run_id, bad.record.run_id)
    readings: tuple[tuple[Moment, str], ...] = (("before", listed), ("after", lost))
    for moment, text in readings:
        path = bad.path / evidence_file("gpu02", load_kind("burn_in", moment))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in (bad.path / "evidence/hosts/gpu02.json", healthy.path / "site.json"):
        path.unlink()
    accuse(bad, "gpu02/gpu3", "gpu")
    pack = make_pack(Run(bad.path), RmaRequest(subject="gpu02/gpu3"))
    gpu = nvidia_smi_xml.parse(json.loads(listed)["tools"]["nvidia_smi_xml"]["stdout"]).gpus[3]
    assert str(gpu.serial) in pack.page
    assert "tools/nvidia_smi_xml.txt" in pack.files


def test_a_host_whose_tools_were_not_asked_is_packed_with_what_is_missing(bad: Run) -> None:
    (bad.path / "evidence/hosts/gpu02.json").unlink()
    pack = make_pack(Run(bad.path), RmaRequest(subject="gpu02"))
    assert pack.against and sum("was not asked in this run" in text for text in pack.missing) == 3


def test_a_run_with_nothing_about_the_part_is_refused_with_a_way_on(bad: Run) -> None:
    with pytest.raises(InputError, match="no check failed about it") as refused:
        make_pack(only(bad), RmaRequest(subject="gpu02"))
    assert f"-e gpufleet_run={bad.path.parent}/<run>" in refused.value.hint


def test_without_an_earlier_run_no_serial_number_is_made_up(bad: Run) -> None:
    accuse(bad, "gpu02/gpu3", "gpu")
    pack = make_pack(bad, RmaRequest(subject="gpu02/gpu3"))
    assert "GPU-" not in pack.page.partition("## What is wrong")[0]
    assert any("serial number" in text for text in pack.missing)


def test_an_earlier_run_of_another_site_or_of_real_hardware_says_nothing(bad: Run, tmp_path: Path) -> None:
    for number, (file, key, value) in enumerate((("site.json", "name", "other"), ("run.json", "rehearsal", False))):
        healthy = saved_run(tmp_path, "healthy", f"2026110{number}T000000Z-good")
        path = healthy.path / file
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}), encoding="utf-8")
    accuse(bad, "gpu02/gpu3", "gpu")
    assert any("serial number" in text for text in make_pack(bad, RmaRequest(subject="gpu02/gpu3")).missing)


def test_an_adapter_has_its_type_firmware_and_guid(bad: Run) -> None:
    accuse(bad, "gpu02/mlx5_0", "hca")
    page = make_pack(bad, RmaRequest(subject="gpu02/mlx5_0")).page
    assert "MT4129" in page and "Node GUID" in page


@pytest.mark.parametrize(
    ("subject", "error", "text"),
    [
        ("gpu09", NotFoundError, "is not in run"),
        ("gpu22/gpu5", NotFoundError, "or a part of one: gpu02/gpu5$"),
        ("beta", NotFoundError, "or a part of one: gpu01/gpu3$"),
        ("gpu01", InputError, "no check failed about it"),
        ("gpu02/gpu5", InputError, "name what failed there: gpu02"),
    ],
)
def test_what_nothing_accuses_is_not_packed(bad: Run, subject: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make_pack(bad, RmaRequest(subject=subject))


def test_added_files_lose_their_secrets_and_others_are_refused(bad: Run, tmp_path: Path) -> None:
    report, binary = tmp_path / "nvidia-bug-report.log.gz", tmp_path / "core.bin"
    report.write_bytes(gzip.compress(b"driver 580\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789\n"))
    binary.write_bytes(b"\xff\xfe\x00\x01")
    pack = make_pack(bad, RmaRequest(subject="gpu02", files=(report,)))
    text = gzip.decompress(pack.files["added/nvidia-bug-report.log.gz"])
    assert b"driver 580" in text and b"hf_abcdef" not in text
    assert not any("nvidia-bug-report" in missing for missing in pack.missing)
    for path, told in ((binary, "no text"), (tmp_path / "absent", "is not there")):
        with pytest.raises((InputError, NotFoundError), match=told):
            make_pack(bad, RmaRequest(subject="gpu02", files=(path,)))
    report.write_bytes(report.read_bytes()[:-9])
    with pytest.raises(InputError, match="no text"):
        make_pack(bad, RmaRequest(subject="gpu02", files=(report,)))


def test_a_file_that_grows_without_end_is_not_unpacked(
    bad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb: a few bytes of gzip that are more than a report ever is (S105, files of others)."""
    monkeypatch.setattr(rma, "_MOST_FILE", 1_000_000)
    bomb = tmp_path / "nvidia-bug-report.log.gz"
    bomb.write_bytes(gzip.compress(b"a" * 1_000_001))
    with pytest.raises(InputError, match="no text that can be looked through"):
        make_pack(bad, RmaRequest(subject="gpu02", files=(bomb,)))
    bomb.write_bytes(gzip.compress(b"a" * 1_000_000))
    assert "added/nvidia-bug-report.log.gz" in make_pack(bad, RmaRequest(subject="gpu02", files=(bomb,))).files


@pytest.mark.parametrize("subject", ["../gpu02", "gpu02/../../etc/passwd", "/etc", "gpu02\0"])
def test_a_part_that_is_a_path_leads_nowhere(bad: Run, subject: str) -> None:
    with pytest.raises((InputError, NotFoundError)):
        make_pack(bad, RmaRequest(subject=subject))


def test_the_archive_is_its_owners_alone(bad: Run, tmp_path: Path) -> None:
    path = tmp_path / "rma" / "gpu02.tar.gz"
    write_pack(path, make_pack(bad, RmaRequest(subject="gpu02")).archive())
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["gpu02.tar.gz"]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("gpu3", "GPU"),
        ("0000:1b:00.0", "GPU"),
        ("", "node"),
        ("mlx5_0", "network adapter"),
        ("ibp24s0", "network adapter"),
    ],
)
def test_kinds_of_parts(part: str, kind: str) -> None:
    assert kind_of(part) == kind


def test_tools_that_did_not_answer_give_no_identity(bad: Run) -> None:
    evidence = read_evidence(bad.path / "evidence/hosts/gpu02.json")
    evidence.tools.clear()
    assert identity("gpu0", evidence) == identity("mlx5_0", evidence) == identity("", evidence) == {}


def test_the_part_is_named_before_its_node(bad: Run) -> None:
    with pytest.raises(InputError) as refused:
        make_pack(bad, RmaRequest(subject="gpu02/gpu1"))
    assert refused.value.hint == "name what failed there: gpu02, gpu02/gpu0 (-e gpufleet_rma=gpu02/gpu0)"


@pytest.mark.parametrize(
    ("relation", "value", "text"), [(">=", 1 / 180, "at least 0.0055556 h"), ("<=", 24.0, "at most 24 h")]
)
def test_expected_values_are_read_without_a_program(relation: str, value: float, text: str) -> None:
    outcome = Outcome(
        check="burn-in-soak", gate="burn_in", status=Status.FAILED, rating=Rating.BAD,
        subjects=(node_subject("gpu02"),), summary="s", cause="c", hint="h",
        expected=(Expectation("soaked", relation, value, Basis.RULE, "h"),),
    )  # fmt: skip
    part = RmaPart(name="gpu02", node="gpu02", kind="node", facts={})
    page = render_page(PackFacts(
        case="", contact="", run_id="r", started="2026-11-02T10:00:00Z", rehearsal=False, part=part, against=(outcome,),
        cleared=(), past=(), files={}, missing=(),
    ))  # fmt: skip
    assert f"expected soaked {text}" in page
