# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Telling another system, such as one for tickets, what was found and done: one POST of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..clients.http.routes import UrlRoute
from ..clients.http.session import HttpSession
from ..outcome.errors import BringupError, InputError
from ..runtime.redaction import redact
from .policy import Policy


def notify(policy: Policy, body: Mapping[str, Any]) -> str:
    """Send it and return what went wrong, empty for nothing. The certificate is always checked.

    Secrets in its texts are made unreadable first; the token goes into the header and nowhere else.
    """
    try:
        headers = {"Authorization": f"Bearer {_token(policy.webhook_token_file)}"} if policy.webhook_token_file else {}
        route = UrlRoute(policy.webhook_url, ca_cert=policy.webhook_ca_file)
        HttpSession(route, headers=headers, timeout_s=policy.webhook_timeout_s).text("POST", "", body=_redacted(body))
    except BringupError as error:
        return redact(str(error))
    return ""


def _token(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read: {error}.", "correct webhook_token_file") from None
    if not token or not token.isprintable():
        raise InputError(path, "holds no token of one line.", "correct webhook_token_file")
    return token


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(key): _redacted(entry) for key, entry in value.items()}
    return [_redacted(entry) for entry in value] if isinstance(value, (list, tuple)) else value
