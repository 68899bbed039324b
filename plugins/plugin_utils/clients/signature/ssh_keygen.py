# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Detached SSH signatures: `ssh-keygen -Y`, the signing tool that every administrator already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import InputError, NotFoundError, UnavailableError
from ...runtime.process import CommandResult, run_command

_TIMEOUT_S = 20.0
_INSTALL = "install the OpenSSH client (Debian, Ubuntu: apt install openssh-client; RHEL: dnf install openssh-clients)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One run of ssh-keygen: its exit code, None at the time limit, and its output."""

    rc: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureFacts:
    """The results of ssh-keygen for one signature. All three are None when there is no signature.

    `intact`: whether the text is the signed one, by any key (`-Y check-novalidate`). `principals`: the owners of the
    key in the allowed signers (`-Y find-principals`). `verified`: whether `identity` may sign this (`-Y verify`).
    """

    signature: str
    identity: str
    namespace: str
    intact: ToolRun | None = None
    principals: ToolRun | None = None
    verified: ToolRun | None = None


def verify_text(
    text: str, signature: Path, allowed_signers: Path, *, namespace: str, identity: str = "", list_needed: bool = True
) -> SignatureFacts:
    """Check a detached signature over a text with ssh-keygen.

    Args:
        text: the signed text, exactly as read from its file.
        signature: file with the signature; it may be absent.
        allowed_signers: file in the format of ssh-keygen(1), ALLOWED SIGNERS.
        namespace: what the signature was made for.
        identity: the required signer; empty for the one that the allowed signers list for the key.
        list_needed: whether a missing file of allowed signers is an error. If not, no signer is allowed then.

    Raises:
        NotFoundError: ssh-keygen is not installed.
        InputError: the file of allowed signers is missing and needed.
    """
    if list_needed and not allowed_signers.is_file():
        raise InputError(f"allowed signers {allowed_signers}", "no such file.", how_to_list(namespace))
    if not signature.is_file():
        return SignatureFacts(signature=str(signature), identity=identity, namespace=namespace)
    common = ("-s", str(signature))
    intact = _ssh_keygen(("check-novalidate", "-n", namespace, *common), text)
    principals = _ssh_keygen(("find-principals", *common, "-f", str(allowed_signers)), "")
    who = identity or next(iter(principals.stdout.split()), "") or "nobody"
    verified = _ssh_keygen(("verify", "-n", namespace, *common, "-f", str(allowed_signers), "-I", who), text)
    return SignatureFacts(
        signature=str(signature),
        identity=who,
        namespace=namespace,
        intact=intact,
        principals=principals,
        verified=verified,
    )


def how_to_list(namespace: str, signer: str = "name@example.org") -> str:
    return f'list who may sign, one line each: `{signer} namespaces="{namespace}" ssh-ed25519 AAAA...`'


def sign_file(path: Path, key: Path, *, namespace: str) -> Path:
    """Sign a file with a private key. Return the path of the signature, `<path>.sig`. An older one is replaced.

    Raises:
        NotFoundError: ssh-keygen is not installed.
        UnavailableError: ssh-keygen refuses.
    """
    signature = path.with_name(f"{path.name}.sig")
    signature.unlink(missing_ok=True)
    done = _run(("ssh-keygen", "-Y", "sign", "-f", str(key), "-n", namespace, str(path)), "")
    if done.rc != 0 or not signature.is_file():
        raise UnavailableError(f"ssh-keygen -Y sign of {path}", f"failed: {done.stderr.strip()[-300:]}.")
    return signature


def make_key(path: Path, comment: str) -> str:
    """Create an ed25519 key pair without passphrase at `path`. Return the public key (`ssh-ed25519 AAAA...`).

    Raises:
        NotFoundError: ssh-keygen is not installed.
        UnavailableError: ssh-keygen refuses.
    """
    for old in (path, path.with_name(f"{path.name}.pub")):
        old.unlink(missing_ok=True)
    done = _run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)), "")
    if done.rc != 0:
        raise UnavailableError(f"ssh-keygen for key {path}", f"failed: {done.stderr.strip()[-300:]}.")
    return " ".join(path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").split()[:2])


def _ssh_keygen(arguments: Sequence[str], text: str) -> ToolRun:
    done = _run(("ssh-keygen", "-Y", *arguments), text)
    return ToolRun(rc=done.rc, stdout=done.stdout, stderr=done.stderr)


def _run(argv: Sequence[str], stdin: str) -> CommandResult:
    try:
        return run_command(argv, _TIMEOUT_S, stdin=stdin)
    except NotFoundError:
        reason = "not found on PATH; without it no signature can be made or verified."
        raise NotFoundError("command ssh-keygen", reason, _INSTALL) from None
