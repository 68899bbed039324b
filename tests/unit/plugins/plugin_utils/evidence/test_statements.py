# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statements about runs: what is signed, what verifies, and that nothing which was changed, is a rehearsal or proves
nothing ever verifies as an acceptance."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from accepted_run import as_of_a_real_cluster
from archives import unpack
from digested import as_of_this_release
from documented import blocks_of
from edits import edit_run
from gpufleet_command import Ended
from seeds import drawing, every_case
from thinned import HEALTHY, remembered

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.cli.main import run as call
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.signature import pem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.evidence.claim import Answer, claim_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.evidence.envelope import (
    Envelope,
    Signature,
    parse_envelope,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.evidence.issue import issue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.evidence.statement import payload_of, statement_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.evidence.verify import Trust, Verified, verify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import decide_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.digests import digest_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.version import COLLECTION, collection_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import STATEMENT
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Node,
    Snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import (
    AppliedDecision,
    GateVerdict,
    TakenOver,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import Work

# Some of each commit; all cases, at night, are more.
EDITS, FORGED, BYTES = (200, 10, 1000) if every_case() else (40, 6, 20)


class Keys:
    """Keys of a site and of a vendor, of every kind that signs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.site = self._pem("site", "-algorithm", "ed25519")
        self.curve = self._pem("curve", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384")
        self.other = self._pem("other", "-algorithm", "ed25519")
        self.ssh = directory / "vendor"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.ssh)], check=True)
        self.signers = self.list_of("vendor@example.org")

    def _pem(self, name: str, *kind: str) -> Path:
        key = self.directory / f"{name}.key"
        subprocess.run(["openssl", "genpkey", *kind, "-out", str(key)], check=True, capture_output=True)
        public = ["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(key.with_suffix(".pub"))]
        subprocess.run(public, check=True)
        return key

    def list_of(self, name: str, options: str = 'namespaces="gpufleet-evidence"') -> Path:
        """A list of allowed signers with the SSH key."""
        public = " ".join(self.ssh.with_name("vendor.pub").read_text("utf-8").split()[:2])
        path = self.directory / f"allowed-{len(list(self.directory.iterdir()))}"
        path.write_text(f"{name} {options} {public}\n", encoding="utf-8")
        return path

    def trust(self, *names: str, signers: bool = False) -> Trust:
        """Trust in public keys by their names, and in the list."""
        paths = tuple(self.directory / f"{name}.pub" for name in names)
        return Trust(keys=paths, allowed_signers=(self.signers,) if signers else ())


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A rehearsal that passed; never changed."""
    directory = tmp_path_factory.mktemp("rehearsed") / "run"
    unpack(HEALTHY, directory)
    as_of_this_release(directory)
    with remembered():
        yield directory


@pytest.fixture(scope="module")
def signed(rehearsed: Path, keys: Keys) -> Path:
    """A run of a real cluster that was accepted, with a statement of site and vendor; never changed."""
    directory = Path(shutil.copytree(rehearsed, rehearsed.parent / "accepted"))
    issue(as_of_a_real_cluster(directory), None, keys=[keys.site], ssh_keys=[keys.ssh])
    return directory


@pytest.fixture
def accepted(signed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(signed, tmp_path / "run"))


def looked(run_dir: Path, trust: Trust) -> Verified:
    return verify((run_dir / STATEMENT).read_bytes(), STATEMENT, trust, Run(run_dir))


def resigned(run_dir: Path, keys: Keys, change: Callable[[dict[str, Any]], None]) -> Verified:
    """Sign another statement than the run gives with the trusted key, and verify it with that key alone."""
    envelope = parse_envelope((run_dir / STATEMENT).read_bytes(), STATEMENT)
    statement = json.loads(envelope.payload)
    change(statement)
    made = Envelope(payload=payload_of(statement))
    keyid, sig = pem.sign_text(keys.site, made.signed_bytes)
    (run_dir / STATEMENT).write_text(made.with_signature(Signature(keyid=keyid, sig=sig)).text, encoding="utf-8")
    return looked(run_dir, keys.trust("site"))


def command(*argv: str, capsys: pytest.CaptureFixture[str]) -> Ended:
    capsys.readouterr()
    code = call(argv, "")
    printed = capsys.readouterr()
    return Ended(code, printed.out, printed.err)


def test_an_accepted_run_is_valid_to_both_signers(signed: Path, keys: Keys) -> None:
    found = looked(signed, keys.trust("site", signers=True))
    assert (found.answer, found.reasons, found.unchecked) == (Answer.VALID, (), ())
    assert [text.split()[0] for text in found.signers] == [str(keys.directory / "site.pub"), "vendor@example.org"]


def test_each_signer_alone_is_enough_to_who_trusts_that_one(signed: Path, keys: Keys) -> None:
    for trust in (keys.trust("site"), keys.trust(signers=True)):
        found = looked(signed, trust)
        assert (found.answer, len(found.signers), len(found.unchecked)) == (Answer.VALID, 1, 1)


@pytest.mark.parametrize(
    ("names", "signers"), [((), False), (("other",), False), (("site", "other"), False), (("other",), True)]
)
def test_without_a_trusted_key_or_one_that_is_asked_for_it_is_never_valid(
    signed: Path, keys: Keys, names: tuple[str, ...], signers: bool
) -> None:
    assert looked(signed, keys.trust(*names, signers=signers)).answer is Answer.INCOMPLETE


@pytest.mark.parametrize(
    "options", ['namespaces="gpufleet-facility"', 'valid-before="20200101"', 'valid-after="20990101"', "cert-authority"]
)
def test_a_list_of_signers_for_something_else_or_another_time_trusts_nobody(
    signed: Path, keys: Keys, options: str
) -> None:
    trust = Trust(allowed_signers=(keys.list_of("vendor@example.org", options),))
    assert looked(signed, trust).answer is Answer.INCOMPLETE


@pytest.mark.parametrize("name", ["site", "curve"])
def test_every_kind_of_pem_key_signs_and_openssl_agrees(accepted: Path, keys: Keys, name: str, tmp_path: Path) -> None:
    (accepted / STATEMENT).unlink()
    issue(Run(accepted), None, keys=[keys.directory / f"{name}.key"])
    assert looked(accepted, keys.trust(name)).answer is Answer.VALID
    envelope = parse_envelope((accepted / STATEMENT).read_bytes(), "")
    (tmp_path / "signed").write_bytes(envelope.signed_bytes)
    (tmp_path / "sig").write_bytes(envelope.signatures[0].sig)
    how = ["dgst", "-sha384", "-verify"] if name == "curve" else ["pkeyutl", "-verify", "-pubin", "-rawin", "-inkey"]
    rest = ["-signature", "sig", "signed"] if name == "curve" else ["-in", "signed", "-sigfile", "sig"]
    subprocess.run(["openssl", *how, str(keys.directory / f"{name}.pub"), *rest], cwd=tmp_path, check=True)


def test_a_rehearsal_is_signed_as_one_and_is_no_acceptance(rehearsed: Path, keys: Keys, tmp_path: Path) -> None:
    run_dir = Path(shutil.copytree(rehearsed, tmp_path / "run"))
    made = issue(Run(run_dir), None, keys=[keys.site])
    found = looked(run_dir, keys.trust("site"))
    assert made.claim.answer is found.answer is Answer.INCOMPLETE
    assert found.reasons[0].startswith("a rehearsal is never an acceptance")


@pytest.mark.parametrize("names", [("run.json",), ("run.json", "site.json")])
def test_a_rehearsal_whose_words_were_changed_is_signed_by_nobody(
    rehearsed: Path, keys: Keys, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Nor where its digests were made again."""
    run_dir = Path(shutil.copytree(rehearsed, tmp_path / "run"))
    for name in names:
        path = run_dir / name
        text = path.read_text("utf-8").replace('"rehearsal": true', '"rehearsal": false')
        path.write_text(text, encoding="utf-8")
    for again in (False, True):
        if again:
            Run(run_dir).save_record(Run(run_dir).record)
        with pytest.raises(BringupError, match="nothing is signed"):
            issue(Run(run_dir), None, keys=[keys.site])
    assert not (run_dir / STATEMENT).exists()


def test_no_field_of_a_statement_makes_a_rehearsal_an_acceptance(rehearsed: Path, keys: Keys, tmp_path: Path) -> None:
    """Signed by a trusted key: with the run it is invalid, and alone no better than what its other fields say."""
    run_dir = Path(shutil.copytree(rehearsed, tmp_path / "run"))
    issue(Run(run_dir), None, keys=[keys.site])

    def as_a_real_one(statement: dict[str, Any]) -> None:
        told = {"rehearsal": False, "claim": {"answer": "valid", "reasons": []}}
        statement["predicate"] |= told

    assert resigned(run_dir, keys, as_a_real_one).answer is Answer.INVALID
    content = (run_dir / STATEMENT).read_bytes()
    assert verify(content, "", keys.trust("site")).answer is Answer.INVALID


def failing(run_dir: Path) -> Run:
    """Let a GPU of the run fail its diagnosis, and decide gate nodes by that; those behind it are not reached."""
    run = Run(run_dir)
    held = [verdict for verdict in run.record.gates if verdict.gate not in ("facility", "fabric")]
    path = run_dir / "evidence/hosts/gpu01.json"
    path.write_text(path.read_text("utf-8").replace('\\"Pass\\"', '\\"Fail\\"'), encoding="utf-8")
    record = run.record
    for verdict in held:
        record = record.with_gate(GateVerdict(gate=verdict.gate, status=Status.PENDING, message="not reached"))
    run.save_record(record)
    for verdict in held[1:]:
        for name in (f"ctrf/{verdict.gate}.json", f"junit/{verdict.gate}.xml"):
            (run_dir / name).unlink()
    assert decide_gate(Run(run_dir), "nodes").status is Status.FAILED
    return Run(run_dir)


def test_a_failed_gate_is_signed_and_said(accepted: Path, keys: Keys) -> None:
    (accepted / STATEMENT).unlink()
    issue(failing(accepted), None, keys=[keys.site])
    found = looked(accepted, keys.trust("site"))
    assert (found.answer, found.reasons) == (Answer.FAILED_GATES, ("gate nodes is failed",))


def test_a_rehearsal_that_is_edited_at_random_and_digested_again_is_never_an_acceptance(
    rehearsed: Path, keys: Keys, tmp_path: Path
) -> None:
    """It is refused, or signed as what it is; a signer whose key is trusted gets no further."""
    draw, trust = drawing("forged rehearsals"), keys.trust("site")
    for number in range(FORGED):
        run_dir = Path(shutil.copytree(rehearsed, tmp_path / str(number)))
        what = edit_run(run_dir, draw)
        try:
            run = Run(run_dir)
            run.save_record(replace(run.record, rehearsal=False))
            issue(Run(run_dir), None, keys=[keys.site])
        except BringupError:
            assert not (run_dir / STATEMENT).exists(), what
        else:
            assert looked(run_dir, trust).answer is not Answer.VALID, what
        shutil.rmtree(run_dir)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scope": ("facility", "fabric")}, "outside the scope of the run: nodes"),
        ({"check_mode": True}, "check mode"),
        ({"problem": "stopped"}, "stopped by a problem"),
        ({"driver_only": True}, "only the checks that need the driver"),
        ({"wave": ("gpu01",)}, "nodes of a wave alone"),
        ({"quarantined": 2}, "no node is accepted"),
        ({"work": Work(verb="roll x", passed=True, failed=False)}, "kind roll x"),
        ({"gates": "pending"}, "gate inference_acceptance was not decided"),
        ({"gates": "taken over"}, "taken over from earlier runs"),
        ({"gates": "skipped"}, "nothing was proven"),
        ({"gates": "empty"}, "passed without a result: facility"),
        ({"phases": "alone"}, "kind validation"),
    ],
)
def test_what_is_not_proven_is_no_acceptance(accepted: Path, change: dict[str, Any], reason: str) -> None:
    """Whatever the record of a run says of its gates."""
    run = Run(accepted)
    record, gates = run.record, run.record.gates
    if "gates" in change or "phases" in change:
        last = gates[-1]
        made = {
            "pending": (*gates[:-1], replace(last, status=Status.PENDING)),
            "taken over": (*gates[:-1], replace(last, status=Status.SKIPPED, taken_over=TAKEN)),
            "skipped": tuple(replace(gate, status=Status.SKIPPED) for gate in gates),
            "empty": (replace(gates[0], counts={}), *gates[1:]),
            "alone": gates,
        }[change.get("gates", "alone")]
        change = {"gates": made} | ({"scope": (), "phases": gates[:1]} if "phases" in change else {})
    whole = claim_of(statement_of(run, record, "", full=False)["predicate"])
    claim = claim_of(statement_of(run, replace(record, **change), "", full=False)["predicate"])
    assert whole.answer is Answer.VALID and claim.answer is Answer.INCOMPLETE
    assert any(reason in text for text in claim.reasons), claim.reasons


TAKEN = TakenOver(runs=("r-1",), oldest="2026-11-20T10:00:00Z", newest="2026-11-20T10:00:00Z", results=4)


def test_a_statement_of_another_form_or_with_a_piece_gone_is_never_valid(accepted: Path, keys: Keys) -> None:
    whole = json.loads(parse_envelope((accepted / STATEMENT).read_bytes(), "").payload)
    for name in whole["predicate"]:
        found = resigned(accepted, keys, lambda statement, name=name: statement["predicate"].pop(name))
        assert found.answer is Answer.INVALID, name
        (accepted / STATEMENT).write_text(_signed(whole, keys), encoding="utf-8")
    for name in whole:
        found = resigned(accepted, keys, lambda statement, name=name: statement.pop(name))
        assert found.answer is Answer.INVALID, name
        (accepted / STATEMENT).write_text(_signed(whole, keys), encoding="utf-8")
    later = resigned(accepted, keys, lambda statement: statement["predicate"].update(schemaVersion=2))
    assert later.answer is Answer.INVALID
    (accepted / STATEMENT).write_text(_signed(whole, keys), encoding="utf-8")
    assert looked(accepted, keys.trust("site")).answer is Answer.VALID


def _signed(statement: dict[str, Any], keys: Keys) -> str:
    made = Envelope(payload=payload_of(statement))
    keyid, sig = pem.sign_text(keys.site, made.signed_bytes)
    return made.with_signature(Signature(keyid=keyid, sig=sig)).text


def test_no_edit_of_a_file_of_the_run_verifies(accepted: Path, signed: Path, keys: Keys) -> None:
    """Words, numbers, rows, files and links, drawn anew with each seed; and a byte of each report."""
    draw, trust, whole = drawing("edits of a signed run"), keys.trust("site"), _bytes(signed)
    for _number in range(EDITS):
        what = edit_run(accepted, draw)
        now = _bytes(accepted)
        other = [name for name in whole if now.get(name) != whole[name]]
        if other:
            assert looked(accepted, trust).answer is Answer.INVALID, what
        for name in (*other, Path(STATEMENT)):
            (accepted / name).unlink(missing_ok=True)
            shutil.copy2(signed / name, accepted / name)
    files = sorted(path for path in accepted.rglob("*") if path.is_file() and path.name != STATEMENT)
    for path in draw.sample(files, min(len(files), BYTES)):
        content = bytearray(path.read_bytes()) or bytearray(b" ")
        place = draw.randrange(len(content))
        path.write_bytes(bytes((*content[:place], content[place] ^ 1 << draw.randrange(8), *content[place + 1 :])))
        assert looked(accepted, trust).answer is Answer.INVALID, path
        shutil.copy2(signed / path.relative_to(accepted), path)
    assert looked(accepted, trust).answer is Answer.VALID


def _bytes(run_dir: Path) -> dict[Path, bytes | None]:
    """Every file of a run but the statement, with its content; of a link none."""
    return {
        path.relative_to(run_dir): None if path.is_symlink() else path.read_bytes()
        for path in run_dir.rglob("*")
        if (path.is_file() or path.is_symlink()) and path.name != STATEMENT
    }


def test_no_other_byte_of_the_envelope_verifies(signed: Path, keys: Keys) -> None:
    content, draw = (signed / STATEMENT).read_bytes(), drawing("bytes of an envelope")
    trust = keys.trust("site", signers=True)
    assert verify(content, "", trust).answer is Answer.VALID
    for _number in range(EDITS):
        place, how = draw.randrange(len(content)), draw.choice(("bit", "bit", "delete", "insert", "cut"))
        other = bytes((content[place] ^ 1 << draw.randrange(8),))
        middle, rest = {
            "bit": (other, content[place + 1 :]),
            "delete": (b"", content[place + 1 :]),
            "insert": (other, content[place:]),
            "cut": (b"", b""),
        }[how]
        found = verify(content[:place] + middle + rest, "", trust)
        assert found.answer in (Answer.INVALID, Answer.INCOMPLETE), (place, how)


@pytest.mark.parametrize("what", ["added", "removed", "link", "directory link", "of another run", "report", "pack"])
def test_files_that_come_go_or_are_exchanged(accepted: Path, keys: Keys, what: str, tmp_path: Path) -> None:
    evidence = accepted / "evidence/hosts"
    if what == "added":
        (evidence / "gpu99.json").write_text("{}", encoding="utf-8")
    elif what == "removed":
        (evidence / "gpu01.json").unlink()
    elif what == "link":
        shutil.move(evidence / "gpu01.json", tmp_path / "gpu01.json")
        (evidence / "gpu01.json").symlink_to(tmp_path / "gpu01.json")
    elif what == "directory link":
        shutil.move(evidence, tmp_path / "hosts")
        evidence.symlink_to(tmp_path / "hosts")
    elif what == "of another run":
        run = Run(accepted)
        run.save_record(replace(run.record, nodes=run.record.nodes, updated="2026-11-30T00:00:00.000Z"))
    elif what == "report":
        (accepted / "junit/another.xml").write_text("<a/>", encoding="utf-8")
    else:
        (accepted / "rma").mkdir()
        (accepted / "rma/gpu01.tar.gz").write_bytes(b"made later, and no part of the run")
    answer = Answer.VALID if what == "pack" else Answer.INVALID
    assert looked(accepted, keys.trust("site")).answer is answer


def test_minimal_has_no_node_serial_or_log_and_full_names_them(accepted: Path, keys: Keys) -> None:
    (accepted / STATEMENT).unlink()
    waived = AppliedDecision(
        check="link-rate", subject="gpu01", cause="c", who="ada@example.org", until="2027-01-01",
        reason="gpu01-bmc of gpu01 (GPU-0e48590c-ca4b-2070-572b-c855857fb267) is slow",
    )  # fmt: skip
    run = Run(accepted)
    record = run.record.with_gate(replace(run.record.gate("fabric"), waived=(waived, replace(waived, subject="gpu02"))))
    minimal, whole = (
        statement_of(run, record, "2026-11-30T00:00:00.000Z", full=full)["predicate"] for full in (False, True)
    )
    assert not re.search(r"gpu0\d(?!-bmc)|GPU-[0-9a-f]|0x[0-9a-f]{16}", json.dumps(minimal))
    assert minimal["waivers"][0] | {"reason": ""} == {
        "gate": "fabric", "check": "link-rate", "cause": "c", "who": "ada@example.org", "reason": "",
        "until": "2027-01-01", "results": 2,
    }  # fmt: skip
    assert minimal["waivers"][0]["reason"] == "gpu01-bmc of <node> (<part>) is slow"
    assert whole["waivers"][0]["subjects"] == ["gpu01", "gpu02"] and whole["run"]["command"]
    issue(run, None, keys=[keys.site], full=True)
    assert looked(accepted, keys.trust("site")).answer is Answer.VALID


def test_where_releases_differ_the_other_one_is_named(accepted: Path, keys: Keys) -> None:
    """A release that judges a run otherwise does not call it valid, and says whose word it may be."""
    (accepted / STATEMENT).unlink()
    run = Run(accepted)
    run.save_record(replace(run.record, versions={**run.record.versions, COLLECTION: "0.0.9"}))
    issue(Run(accepted), None, keys=[keys.site])
    assert looked(accepted, keys.trust("site")).answer is Answer.VALID
    found = resigned(accepted, keys, lambda statement: statement["predicate"]["software"].clear())
    assert found.answer is Answer.INVALID and found.reasons == (
        "the statement's software is not what the run gives",
        f"it is of {COLLECTION} 0.0.9, and this is {collection_version()}: verify it with that release as well",
    )


@pytest.mark.parametrize(
    ("product", "system", "accelerator", "os"),
    [("NVIDIA-H100-80GB-HBM3", "Ubuntu 24.04.2 LTS", True, True), ("NVIDIA-A100-SXM4-80GB", "", False, None)],
)
def test_a_snapshot_says_which_criteria_the_cluster_has(
    accepted: Path, product: str, system: str, accelerator: bool, os: bool | None
) -> None:
    node = Node(labels={"nvidia.com/gpu.product": product}, capacity={"nvidia.com/gpu": "8"}, os_image=system)
    whole = dict.fromkeys(COLLECTORS, CollectorResult(state=Collected.WHOLE))
    path = accepted / "evidence/readiness/snapshot.json"
    path.parent.mkdir()
    path.write_text(to_text(Snapshot(taken="", made_by="", collectors=whole, nodes={"gpu01": node})), encoding="utf-8")
    told = statement_of(Run(accepted), Run(accepted).record, "", full=False)["predicate"]["snapshot"]
    assert told["fingerprint"] == digest_of(path)
    found = told["criteriaMatch"]["perDimension"]
    assert (found["accelerator"]["matched"], found["os"]["matched"], found["intent"]["matched"]) == (
        accelerator, os, None,
    )  # fmt: skip
    # Nothing in a snapshot says what the cluster is for.
    assert told["criteriaMatch"]["matched"] is (None if accelerator else False)
    path.write_text("{}", encoding="utf-8")
    told = statement_of(Run(accepted), Run(accepted).record, "", full=False)["predicate"]["snapshot"]
    assert {entry["matched"] for entry in told["criteriaMatch"]["perDimension"].values()} == {None}


def test_a_signature_is_added_to_what_the_run_still_gives_and_to_nothing_else(accepted: Path, keys: Keys) -> None:
    before = parse_envelope((accepted / STATEMENT).read_bytes(), "")
    made = issue(Run(accepted), None, keys=[keys.curve])
    after = parse_envelope((accepted / STATEMENT).read_bytes(), "")
    assert (after.payload, after.signatures[:2]) == (before.payload, before.signatures)
    assert len(made.keyids) == 3 and looked(accepted, keys.trust("site", "curve", signers=True)).answer is Answer.VALID
    again = issue(Run(accepted), None, keys=[keys.curve])
    assert again.keyids == made.keyids
    content = (accepted / STATEMENT).read_bytes()
    (accepted / "report.md").write_text("accepted 2000 of 2000 nodes", encoding="utf-8")
    with pytest.raises(BringupError, match="not about this run as it is"):
        issue(Run(accepted), None, keys=[keys.other])
    assert (accepted / STATEMENT).read_bytes() == content


def test_keys_that_do_not_sign_are_refused_in_a_sentence(accepted: Path, keys: Keys, tmp_path: Path) -> None:
    locked, rsa = tmp_path / "locked.key", tmp_path / "rsa.key"
    lock = ["openssl", "pkey", "-in", str(keys.site), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(lock, check=True)
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-out", str(rsa)], check=True, capture_output=True)
    for path, word in (
        (locked, "encrypted"), (rsa, "another kind"), (keys.ssh.with_name("vendor.pub"), "no private key"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=word):
            issue(Run(accepted), None, keys=[path])
    # Its exit code is that of the page: what is named is not there.
    with pytest.raises(NotFoundError, match="cannot be read"):
        issue(Run(accepted), None, keys=[tmp_path / "none"])
    for path, word in ((keys.site, "no public key"), (tmp_path / "none", "cannot be read")):
        with pytest.raises(InputError, match=word):
            looked(accepted, Trust(keys=(path,)))
    # The fix leaves the private key that was named by mistake as it is.
    with pytest.raises(InputError) as caught:
        looked(accepted, Trust(keys=(keys.site,)))
    assert f"-in {keys.site} -pubout -out {keys.site}.pub" in caught.value.hint


def test_the_commands_and_their_exit_codes(
    accepted: Path, rehearsed: Path, keys: Keys, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = ("--key", str(keys.directory / "site.pub"))
    ended = command("evidence-verify", str(accepted), *trusted, capsys=capsys)
    assert ended.code == 0 and ended.out.startswith("valid: accepted 2 of 2 nodes of site ")
    archive = tmp_path / "run.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(accepted, arcname="some-run")
    assert command("evidence-verify", str(archive), *trusted, capsys=capsys).code == 0
    alone = command("evidence-verify", str(accepted / STATEMENT), *trusted, capsys=capsys)
    assert alone.code == 0 and "were not compared: add --run" in alone.out
    assert command("evidence-verify", str(accepted), capsys=capsys).code == 3
    other = tmp_path / "other"
    shutil.copytree(rehearsed, other)
    told = command("evidence", str(other), capsys=capsys)
    assert (told.code, "signed     skipped (unsigned)" in told.out) == (0, True)
    assert "claims     incomplete" in told.out and "a rehearsal is never an acceptance" in told.out
    ended = command("evidence-verify", str(other), *trusted, "--format", "json", capsys=capsys)
    assert ended.code == 3 and json.loads(ended.out)["reasons"][0] == "nobody signed it: skipped (unsigned)"
    file = ("evidence-verify", str(accepted / STATEMENT), *trusted, "--run", str(other))
    assert command(*file, capsys=capsys).code == 2
    failing(accepted)
    (accepted / STATEMENT).unlink()
    assert command("evidence", str(accepted), "--key", str(keys.site), capsys=capsys).code == 0
    assert command("evidence-verify", str(accepted), *trusted, capsys=capsys).code == 1
    missing = command("evidence-verify", str(tmp_path / "none"), *trusted, capsys=capsys)
    assert missing.code == 3 and "there is no statement" in missing.err


def test_an_archive_with_anything_else_in_it_is_refused(
    accepted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside").write_text("{}", encoding="utf-8")
    (accepted / "evidence/link").symlink_to(tmp_path / "beside")
    for number, name in enumerate(("run", "../run", "/run")):
        archive = tmp_path / f"{number}.tar"
        with tarfile.open(archive, "w") as tar:
            entry = tar.gettarinfo(accepted / ("evidence/link" if name == "run" else "run.json"))
            entry.name = f"{name}/run.json"
            tar.addfile(entry, None if name == "run" else (accepted / "run.json").open("rb"))
        ended = command("evidence-verify", str(archive), capsys=capsys)
        assert ended.code == 2 and "files of a run alone are expected" in ended.err


class Typed:
    """The directory of who typed the page: keys, a list, a run that both signed."""

    def __init__(self, directory: Path, repository: Path) -> None:
        self.directory, self.run = directory, directory / ".run/latest"
        self.blocks = [block.text for block in blocks_of(repository, "docs/evidence.md")]
        self._words = {"PATH": f"{repository / 'bin'}:{os.environ['PATH']}", "GPUFLEET_PYTHON": sys.executable}

    def shell(self, text: str) -> int:
        """Type it; a command that does not end with 0 ends the block."""
        environment = os.environ | self._words
        done = subprocess.run(
            ["bash", "-ec", text], cwd=self.directory, env=environment, capture_output=True, check=False
        )
        return done.returncode


@pytest.fixture(scope="module")
def typed(signed: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Typed:
    made = Typed(tmp_path_factory.mktemp("typed"), repository)
    shutil.copytree(signed, made.run)
    (made.run / STATEMENT).unlink()
    assert len(made.blocks) == 5 and [made.shell(block) for block in made.blocks[:2]] == [0, 0]
    return made


def test_the_page_signs_and_verifies_as_typed_with_and_without_our_tool(typed: Typed) -> None:
    assert [typed.shell(block) for block in typed.blocks[2:]] == [0, 0, 0]
    assert "evidence-verify" in typed.blocks[2] and "gpufleet " not in "".join(typed.blocks[3:]).replace("-I ", "")


@pytest.mark.parametrize("edited", ["run.json", "report.html", "evidence/hosts/gpu01.json", "recipe.json", STATEMENT])
def test_of_a_changed_file_both_ways_say_the_same(typed: Typed, edited: str) -> None:
    path = typed.run / edited
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes((content[200] ^ 1,)) + content[201:])
    trust = Trust(keys=(typed.directory / "site.pub",), allowed_signers=(typed.directory / "allowed_signers",))
    try:
        assert looked(typed.run, trust).answer is Answer.INVALID
        assert typed.shell("\n".join(typed.blocks[3:])) != 0
    finally:
        path.write_bytes(content)
    assert looked(typed.run, trust).answer is Answer.VALID
