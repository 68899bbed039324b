# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Base of all parsers: text with lines of bounded length, the error of a parser, numbers with units."""

from __future__ import annotations

import re

from ..outcome.errors import InputError

_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z%/()°]*)")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# The kernel's lines end at 1 KiB; a row of the largest matrix or an NCCL channel line is a few KiB. A longer line is
# not a tool's output, and a regular expression for the end of a line would scan all of it.
LONGEST_LINE = 8192


def unreadable(tool: str, found: str, expected: str) -> InputError:
    """Return the error for output that the tool does not print when it works."""
    return InputError(f"output of {tool}", f"found {found[:160]!r}, expected {expected}.", f"run `{tool}` on the node")


def number(text: str, tool: str, name: str) -> float:
    """Return the leading number of `81559 MiB`, `68.92 W`, `16x`, `29 C`.

    Raises:
        InputError: there is no number.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise unreadable(tool, f"{name}: {text.strip()}", f"a number for {name}")
    return float(match.group(1))


def whole(text: str, tool: str, name: str) -> int:
    """Return the leading whole number (see number).

    Raises:
        InputError: there is no whole number.
    """
    value = number(text, tool, name)
    if value != int(value):
        raise unreadable(tool, f"{name}: {text.strip()}", f"a whole number for {name}")
    return int(value)


def plain(text: str) -> str:
    """Return the text without terminal escapes, byte order mark, carriage returns and NULs.

    Raises:
        InputError: a line is longer than LONGEST_LINE characters.
    """
    clean = document(text)
    longest = max((len(line) for line in clean.split("\n")), default=0)
    if longest > LONGEST_LINE:
        raise InputError(
            "output of a tool",
            f"one line has {longest} characters, expected at most {LONGEST_LINE}.",
            "run the tool on the node and look at its output",
        )
    return clean


def document(text: str) -> str:
    """Return the text as plain() does, with lines of any length: for JSON and XML, which may be on one line."""
    return _ANSI.sub("", text).lstrip("\ufeff").replace("\r", "").replace("\0", "")


def pci_address(text: str) -> str:
    """Return a PCI address as `dddd:bb:dd.f` in lower case. Tools print domains of 0, 4 or 8 digits.

    Raises:
        InputError: not a PCI address.
    """
    match = re.fullmatch(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?", text.strip())
    if match is None:
        raise InputError(f"PCI address {text.strip()[:40]!r}", "expected domain:bus:device.function.")
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


def guid(text: str, tool: str) -> int:
    """Return a GUID as a number. Tools differ in padding it with zeros to 16 digits.

    Raises:
        InputError: it is none.
    """
    match = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{1,16})", text.strip())
    if match is None:
        raise unreadable(tool, text.strip(), "a GUID such as 0x248a070300928186")
    return int(match[1], 16)


def guid_text(value: int) -> str:
    """Return a GUID as the InfiniBand tools print it: `0x248a070300928186`."""
    return f"0x{value:016x}"
