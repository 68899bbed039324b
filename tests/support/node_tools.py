# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools of the network print on a host of a small fleet, by the adapters that it has and what they say."""

from __future__ import annotations

from collections.abc import Mapping


def network_texts(hcas: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the outputs by tool; every adapter may state words of its own."""
    return {"mlxlink": "".join(_link(name, values) for name, values in hcas.items())}


def _link(name: str, values: Mapping[str, str]) -> str:
    v = {"link": "Active", "ber": "15E-255", "raw": "4E-9", "module": "52 [-5..75]"} | values
    return (
        f"===== {name} =====\nState : {v['link']}\nEffective Physical BER : {v['ber']}\n"
        f"Raw Physical BER : {v['raw']}\nTemperature [C] : {v['module']}\n"
    )
