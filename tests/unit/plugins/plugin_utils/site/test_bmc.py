# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of a Redfish service as an inventory states it."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.inventory import service_url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("", ""), (None, ""), ("bmc-gpu01.example.org", "https://bmc-gpu01.example.org"),
        ("10.0.0.7:8443", "https://10.0.0.7:8443"), ("https://10.0.0.7/", "https://10.0.0.7"),
        ("[fd00::7]:443", "https://[fd00::7]:443"),
    ],
)  # fmt: skip
def test_an_address_is_taken_as_https(address: object, url: str) -> None:
    assert service_url(address) == url


@pytest.mark.parametrize(
    "address",
    [
        "http://10.0.0.7", "https://root:calvin@10.0.0.7", "10.0.0.7/redfish/v1", "ftp://x", "a b", "10.0.0.7:0",
        "10.0.0.7:70000", 7, ["10.0.0.7"], "-x",
    ],
)  # fmt: skip
def test_what_is_none_is_refused_without_repeating_it(address: object) -> None:
    with pytest.raises(ValueError, match=r"expected|http|account") as caught:
        service_url(address)
    assert "calvin" not in str(caught.value)
