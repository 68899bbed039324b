# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stream of which the beginning and the end are kept, and a line that says how much between them is not.

The line is a part of the text, so whoever reads the evidence later knows it as well.
"""

from __future__ import annotations

import re

_MARK = "[gpufleet: {} bytes of this log are left out here]"
_CUT = re.compile(r"^" + re.escape(_MARK).replace(re.escape("{}"), r"(\d{1,20})") + r"$", re.MULTILINE)
_OPEN_END = "[gpufleet: the end of this log could not be read]"


class Capped:
    """The first and the last half of `limit` bytes of a stream, whatever its length."""

    def __init__(self, limit: int) -> None:
        """Begin with nothing; `limit` is in bytes."""
        self._half = max(1, limit // 2)
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]

    def content(self) -> bytes:
        """Return what was kept; where something was left out, whole lines around a line that says how much."""
        if not self._left_out:
            return bytes(self._head + self._tail)
        head, tail = bytes(self._head), bytes(self._tail)
        # What is cut in the middle of a line could read as something else.
        begun, ended = head.rfind(b"\n") + 1, tail.find(b"\n") + 1 or len(tail)
        left_out = self._left_out + len(head) - begun + ended
        return head[:begun] + _MARK.format(left_out).encode() + b"\n" + tail[ended:]


def with_open_end(log: str) -> str:
    """Return a log that was cut before its end, with a line that says so."""
    return f"{log.rstrip()}\n{_OPEN_END}\n"


def after_gap(text: str) -> str:
    """Return what a text says after the line that says that something was left out; all of it without such a line."""
    found = _CUT.search(text)
    return text[found.end() :] if found else text


def left_out_of(log: str) -> str:
    """Return what a log says that is not in it, as a clause for people; empty where it is whole."""
    if log.rstrip().endswith(_OPEN_END):
        return "the end of its log could not be read"
    found = _CUT.search(log)
    return f"{int(found[1])} bytes in the middle of its log were left out, more than is read of one" if found else ""
