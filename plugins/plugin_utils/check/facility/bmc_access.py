# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How BMCs and PDUs are reached: settings of check bmc-reached, which apply to PDUs too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...clients.redfish.service import Access, Account
from ...outcome.errors import InputError
from ..kit.settings import setting

BMC_REACHED = "bmc-reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedAccount:
    """An account of one BMC or PDU."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcAccess:
    """Settings of check bmc-reached."""

    # How BMCs and PDUs are reached; no account is assumed.
    user: str = setting("Account that may read Redfish (role ReadOnly).", default="", use="run")
    password: str = setting("Its password, from a vault; it is in no file of a run.", default="", use="run")
    password_file: str = setting(
        "File that holds the password, where it is not stated; one line.", default="", use="run"
    )
    accounts: dict[str, StatedAccount] = setting(
        "Accounts (user, password) of single BMCs and PDUs, by the name of the host or PDU, in place of user and "
        "password.",
        default={},
        use="run",
    )
    ca_cert: str = setting(
        "File of the authority that signed the certificates of BMCs and PDUs; empty: those that this machine knows.",
        default="",
        use="run",
    )
    validate_certs: bool = setting(
        "Whether certificates are checked; without it a password goes to whoever has the address.",
        default=True,
        use="run",
    )
    login: Literal["session", "basic"] = setting(
        "`session` logs in and out, and falls back to `basic` where a service has no sessions.",
        default="session",
        use="run",
    )
    # One answer of a busy BMC takes seconds, a whole one minutes (README of mrlhansen/idrac_exporter).
    timeout_s: float = setting(
        "The most that one request may take.", default=30, unit="s", above=0, maximum=600, use="run"
    )
    limit_s: float = setting(
        "The most that reading one BMC may take; some need minutes.",
        default=600,
        unit="s",
        above=0,
        maximum=3600,
        use="run",
    )
    at_once: int = setting(
        "How many BMCs are read at a time; each of them is asked one thing after the other.",
        default=16,
        minimum=1,
        maximum=256,
        use="run",
    )

    @property
    def access(self) -> Access:
        """The same in the form of the client."""
        return Access(
            ca_cert=self.ca_cert, validate_certs=self.validate_certs, auth=self.login, timeout_s=self.timeout_s,
            limit_s=self.limit_s,
        )  # fmt: skip

    def account(self, name: str) -> Account:
        """Return the account for that host or PDU.

        Raises:
            InputError: none is configured, or the file with the password cannot be read.
        """
        own: Mapping[str, StatedAccount] = self.accounts
        user, password = (own[name].user, own[name].password) if name in own else (self.user, self.password)
        if name not in own and not password and self.password_file:
            password = _first_line(Path(self.password_file).expanduser())
        if not user or not password:
            hint = (
                "state user and password in gpufleet_settings bmc-reached (or accounts there), the password from "
                "`ansible-vault encrypt_string`"
            )
            raise InputError(f"account for the BMC of {name}", "user or password is not stated.", hint)
        return Account(user, password)


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        hint = "correct gpufleet_settings bmc-reached.password_file"
        raise InputError(f"password file {path}", f"cannot be read: {reason}.", hint) from None
