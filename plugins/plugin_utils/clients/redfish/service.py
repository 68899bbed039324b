# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a Redfish service (BMC of a host, rack PDU): login, GETs of resources, logout. Nothing else is sent.

    with RedfishService(url, name, Account("root", password), Access(ca_cert="/etc/ssl/bmc-ca.pem")) as bmc:
        chassis = bmc.get("/redfish/v1/Chassis")

Login follows DMTF DSP0266 (clause "Redfish session login authentication"). The service root is readable without
credentials and links the collection of sessions. A POST there responds with 201, the token in X-Auth-Token and the
session in Location. The session is deleted at the end, or the few slots of a BMC run out. Where a service has no
sessions (404, 405; an old iDRAC has them at another place, the HPE G2 PDU takes basic authentication), HTTP basic
authentication is used.

urllib3 sends the requests: the client of Kubernetes depends on it, so no further library has to be installed.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

from ...runtime.clock import Deadline
from ...runtime.redaction import MASK, excerpt
from .wire import BusyError, LoginError, NotRedfishError, RedfishError, Reply, StatusError, Wire

ROOT = "/redfish/v1/"
_OLD_SESSIONS = "/redfish/v1/Sessions"
_NO_SESSIONS = frozenset({404, 405, 501})
_REFUSED = frozenset({400, 401, 403})
_BUSY = frozenset({429, 503})
# An addition to the time for reading, so that a slow service is logged out of as well.
_LOGOUT_S = 10.0
Auth = Literal["session", "basic"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Account:
    """The account for reading. The password is in no text of this value."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach a service, see Wire. `limit_s` is the time limit for all of its requests together, in seconds."""

    ca_cert: str = ""
    validate_certs: bool = True
    auth: Auth = "session"
    timeout_s: float = 30.0
    limit_s: float = 300.0


class RedfishService:
    """One service, with a login for the `with` block."""

    def __init__(self, url: str, name: str, account: Account, access: Access) -> None:
        """Store the address (`https://host[:port]`) and the name for messages. Nothing is sent yet."""
        self.name = f"{name} ({url})"
        self._account, self._access = account, access
        self._wire = Wire(
            url, self.name, ca_cert=access.ca_cert, validate_certs=access.validate_certs, timeout_s=access.timeout_s
        )
        self._deadline = Deadline.after(access.limit_s)
        self._headers: dict[str, str] = {}
        self._session = ""
        self.root: Json = {}

    def __enter__(self) -> RedfishService:
        """Read the service root and log in.

        Raises:
            RedfishError: it cannot be read, or the login fails.
        """
        self._deadline = Deadline.after(self._access.limit_s)
        try:
            self.root = self._root()
            self._log_in()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the session. An error of that is ignored, because everything has been read."""
        try:
            if self._session:
                self._wire.once("DELETE", self._session, self._headers, None, Deadline.after(_LOGOUT_S))
        except RedfishError:
            # The service ends an unused session itself (SessionTimeout).
            pass
        finally:
            self._session, self._headers = "", {}
            self._wire.close()

    def get(self, path: str) -> Json:
        """Return a resource.

        Raises:
            RedfishError: no response, an error status, or no JSON object.
        """
        reply = self._wire.patient("GET", path, self._headers, self._deadline)
        if reply.status in _BUSY:
            raise self._busy(reply, f"GET {path}")
        if reply.status == 401:
            raise LoginError(self.name, f"GET {path}: HTTP 401, the session has ended.", "run the gate again")
        if not 200 <= reply.status < 300:
            hint = f"look at it: {self._wire.look.replace(ROOT, path)}"
            raise StatusError(f"{self.name} {path}", reply.status, self._said(reply), hint)
        return reply.document(f"{self.name} {path}")

    def _root(self) -> Json:
        reply = self._wire.patient("GET", ROOT, {}, self._deadline)
        if reply.status in _BUSY:
            raise self._busy(reply, f"GET {ROOT}")
        if reply.status in (401, 403):
            # Observed, against the standard: the service root requires credentials.
            return {}
        if reply.status != 200:
            text = f"GET {ROOT} answers HTTP {reply.status}, expected the service root of Redfish."
            raise NotRedfishError(self.name, text, f"is it the BMC's own address? {self._wire.look}")
        root = reply.document(f"{self.name} {ROOT}")
        if not any(name in root for name in ("RedfishVersion", "Chassis", "Systems", "PowerDistribution")):
            text = f"GET {ROOT} answers with JSON that is no service root of Redfish."
            raise NotRedfishError(self.name, text, f"is it the BMC's own address? {self._wire.look}")
        return root

    def _log_in(self) -> None:
        if self._access.auth == "session":
            for path in dict.fromkeys((self._sessions(), _OLD_SESSIONS)):
                reply = self._wire.once(
                    "POST",
                    path,
                    {},
                    {"UserName": self._account.user, "Password": self._account.password},
                    self._deadline,
                )
                if reply.status not in _NO_SESSIONS:
                    self._begin(reply, path)
                    break
        if not self._headers:
            pair = f"{self._account.user}:{self._account.password}".encode()
            self._headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        if not self.root:
            self.root = self.get(ROOT)

    def _sessions(self) -> str:
        links = self.root.get("Links")
        sessions = links.get("Sessions") if isinstance(links, dict) else None
        path = sessions.get("@odata.id") if isinstance(sessions, dict) else None
        return path if isinstance(path, str) and path.startswith("/redfish/") else "/redfish/v1/SessionService/Sessions"

    def _begin(self, reply: Reply, path: str) -> None:
        if reply.status in _BUSY:
            raise self._busy(reply, f"POST {path}")
        if reply.status in _REFUSED:
            if "session" in self._said(reply).lower() and "limit" in self._said(reply).lower():
                raise self._busy(reply, f"POST {path}")
            text = f"the account {self._account.user!r} is refused (HTTP {reply.status})."
            hint = (
                "correct user and password in gpufleet_settings bmc-reached (or accounts there), and see that the "
                "account is enabled and not locked on the BMC"
            )
            raise LoginError(self.name, text, hint)
        token = reply.headers.get("x-auth-token", "")
        if reply.status not in (200, 201) or not token:
            text = (
                f"POST {path} answers HTTP {reply.status} {'without' if not token else 'with'} a token, expected 201."
            )
            raise NotRedfishError(
                self.name, text, "set login: basic in gpufleet_settings bmc-reached if it has no sessions"
            )
        self._headers = {"X-Auth-Token": token}
        # The whole URL or its path. DELETE goes to this service and never to another host.
        self._session = urlsplit(reply.headers.get("location", "")).path
        if not self._session.startswith("/redfish/"):
            self._session = ""

    def _busy(self, reply: Reply, what: str) -> BusyError:
        text = f"{what}: HTTP {reply.status}, it is busy{': ' + self._said(reply) if self._said(reply) else ''}."
        hint = f"wait, or end sessions that were left behind on the BMC; {self._wire.look}"
        return BusyError(self.name, text, hint)

    def _said(self, reply: Reply) -> str:
        """Return the text of the response. The password is masked if the service repeats it."""
        text = reply.body[:4000].decode(errors="replace")
        if self._account.password:
            text = text.replace(self._account.password, MASK)
        return excerpt(text, 200).rstrip(".")
