# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verifying a statement: its form, its signatures by trusted keys, the run that it is about, what it claims."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..clients.signature.pem import read_public_key
from ..clients.signature.ssh_keygen import verify_text
from ..clients.signature.sshsig import is_ssh_signature, signing_key
from ..outcome.errors import InputError
from ..run.run import Run
from .claim import Answer, claim_of
from .compared import compared
from .envelope import NAMESPACE, Envelope, Signature, parse_envelope
from .read import read_statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trusted signers: public keys that all have to have signed, and lists of SSH signers, of each of which one has
    to have signed."""

    keys: tuple[Path, ...] = ()
    allowed_signers: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result, why it is no better one, who signed, and which signatures were not checked."""

    answer: Answer
    reasons: tuple[str, ...] = ()
    signers: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    statement: dict[str, Any] | None = None
    run_compared: bool = False


def verify(content: bytes, source: str, trust: Trust, run: Run | None = None) -> Verified:
    """Return what an envelope proves.

    Args:
        content: the bytes of its file.
        source: its name in messages.
        trust: the trusted signers.
        run: the run that it is about, to compare with.

    Raises:
        InputError: a key or a list of signers cannot be read.
    """
    try:
        envelope = parse_envelope(content, source)
        statement = read_statement(envelope, source)
        claim = claim_of(statement["predicate"])
    except InputError as error:
        return Verified(answer=Answer.INVALID, reasons=(f"{error.subject}: {error.reason}",))
    looked = _Signatures(envelope)
    looked.look(trust)
    wrong = list(looked.wrong)
    reported = {"answer": claim.answer.value, "reasons": list(claim.reasons)}
    if statement["predicate"]["claim"] != reported:
        wrong.append("the statement claims something else than what it says of its gates gives")
    if run is not None:
        wrong += compared(run, statement)
    missing = tuple(looked.missing)
    reasons = tuple(wrong) or (*missing, *claim.reasons)
    return Verified(
        answer=Answer.INVALID if wrong else Answer.INCOMPLETE if missing else claim.answer,
        reasons=reasons,
        signers=tuple(looked.signers),
        unchecked=tuple(looked.unchecked),
        statement=statement,
        run_compared=run is not None,
    )


class _Signatures:
    """Checks the signatures of an envelope: valid, wrong and missing ones."""

    def __init__(self, envelope: Envelope) -> None:
        self._text = envelope.signed_bytes
        self._ssh = [entry for entry in envelope.signatures if is_ssh_signature(entry.sig)]
        self._pem = [entry for entry in envelope.signatures if not is_ssh_signature(entry.sig)]
        self.signers: list[str] = []
        self.wrong: list[str] = []
        self.missing: list[str] = []
        self.unchecked: list[str] = []

    def look(self, trust: Trust) -> None:
        """Check each of them with the trusted keys."""
        for entry in self._ssh:
            if signing_key(entry.sig) != entry.keyid:
                self.wrong.append(f"signature of {entry.keyid}: is not whole, or of another key")
        trusted = {*self._by_keys(trust.keys), *self._by_lists(trust.allowed_signers)}
        if not self._ssh and not self._pem:
            self.missing = ["nobody signed it: skipped (unsigned)"]
        elif not trust.keys and not trust.allowed_signers:
            self.missing.append("no trusted key is named: --key PUBLIC_KEY or --allowed-signers FILE")
        self.unchecked += [entry.keyid for entry in (*self._pem, *self._ssh) if entry.keyid not in trusted]

    def _by_keys(self, paths: Sequence[Path]) -> list[str]:
        known = []
        for key in map(read_public_key, paths):
            found = [entry for entry in self._pem if entry.keyid == key.keyid]
            if not found:
                self.missing.append(f"key {key.path} has not signed it")
                continue
            known.append(key.keyid)
            if not key.verifies(found[0].sig, self._text):
                self.wrong.append(f"signature of {key.keyid}: is not of that key over this statement")
            else:
                self.signers.append(f"{key.path} ({key.keyid})")
        return known

    def _by_lists(self, paths: Sequence[Path]) -> list[str]:
        trusted = []
        for path in paths:
            names = {entry.keyid: self._signer(entry, path) for entry in self._ssh}
            known = [keyid for keyid, name in names.items() if name]
            trusted += known
            self.signers += [f"{names[keyid]} ({keyid})" for keyid in known]
            if not known:
                self.missing.append(f"nobody of {path} has signed it")
        return trusted

    def _signer(self, entry: Signature, allowed_signers: Path) -> str:
        """Return who of a list made an SSH signature. One that is not over this statement is wrong in any case."""
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as directory:
            signature = Path(directory) / "signature"
            signature.write_bytes(entry.sig)
            facts = verify_text(self._text.decode("ascii"), signature, allowed_signers, namespace=NAMESPACE)
        if facts.intact is None or facts.intact.rc != 0:
            self.wrong.append(f"signature of {entry.keyid}: is not of that key over this statement")
            return ""
        return facts.identity if facts.verified is not None and facts.verified.rc == 0 else ""
