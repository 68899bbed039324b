# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The address of a Redfish service as an inventory states it: a name or an address, with or without port and scheme."""

from __future__ import annotations

import re

VARIABLE = "gpufleet_bmc"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_ADDRESS = re.compile(rf"(?:https://)?({_HOST})(?::([0-9]{{1,5}}))?/?")


def service_url(address: object) -> str:
    """Return `https://host[:port]` of a stated address, empty if none is stated.

    Raises:
        ValueError: what is wrong with it. What stands there may be a password, so the text does not repeat it.
    """
    if address is None or address == "":
        return ""
    if not isinstance(address, str):
        raise ValueError(f"is {type(address).__name__}, expected a text such as bmc-gpu01.example.org.")
    if "@" in address:
        raise ValueError("holds an account; state the address alone, and the account in gpufleet_settings.")
    if address.startswith("http://"):
        raise ValueError("is http, and a password is not sent in the clear; state the https address.")
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or int(found[2] or 1) not in range(1, 65536):
        raise ValueError("is no address; expected such as bmc-gpu01.example.org, 10.0.0.7:8443 or [fd00::7].")
    return f"https://{found[1]}" + (f":{int(found[2])}" if found[2] else "")
