# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""YAML as recipes use it: the 1.2 core types, no duplicate keys, and limits.

Upstream's reader reads `yes`, `on` and dates as texts, so PyYAML's own types (1.1) would change values. Parsing events
is iterative: deep nesting or an alias bomb is an error with a line, never a crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError
from ..runtime.foreign_yaml import MAX_DEPTH, MAX_NODES, number, parser

Path = tuple[str | int, ...]

# Numbers of YAML that JSON does not have. Chart values become JSON.
_NOT_FINITE = re.compile(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
_NOT_FINITE_ENDS = ("inf", "nan")
_WORDS: dict[str, Any] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Characters that look like a space and are letters to YAML: in the margin, after a dash, after a key.
ODD = "\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff"
_ODD_SPACE = re.compile(rf"^ *(?:- +)*(?:-|[\w./-]+:)? *([{ODD}])")
_TAB = re.compile(r"^ *\t")
_TAGS = {"tag:yaml.org,2002:str", "!"}


def scalar(text: str) -> Any:
    """Return the value of an unquoted scalar: null, bool, int, float or text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    found = number(text)
    return text if found is None else found


@dataclass(slots=True)
class _Frame:
    """One open mapping or list."""

    container: dict[str, Any] | list[Any]
    anchor: str | None
    key: str | None = None
    has_key: bool = False
    merging: bool = False
    merge_line: int = 0
    merges: list[dict[str, Any] | list[Any]] = field(default_factory=list)


def _odd_space(name: str, text: str, line: int) -> InputError | None:
    """Return the error for a character that only looks like a space, in this line or the one before it."""
    if text.isascii() and "\t" not in text:
        return None
    for row, written in enumerate(text.splitlines()[:line], start=1):
        if row == line and _TAB.match(written):
            return InputError(f"{name}:{row}", "has a tab where YAML needs spaces.", "Indent with spaces.")
        found = _ODD_SPACE.match(written) if row >= line - 1 else None
        if found is not None:
            return _odd(f"{name}:{row}", found[1])
    return None


def _odd(place: str, character: str) -> InputError:
    reason = f"has the character U+{ord(character):04X} where YAML needs a space."
    return InputError(place, reason, "Type a plain space.")


def _line_of(error: Any, text: str) -> int:
    """Return the line of a YAML error: that of its mark, or of its byte position."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    before = text.encode("utf-8", "surrogatepass")[: getattr(error, "position", None) or 0]
    return before.count(b"\n") + 1


def _open_since(error: Any, line: int) -> str:
    """Return what an earlier line left open, if the error is that its end is missing."""
    context, mark = getattr(error, "context", None) or "", getattr(error, "context_mark", None)
    if mark is None or mark.line + 1 == line or not any(word in context for word in ("flow", "quoted")):
        return ""
    what = context.removeprefix("while parsing ").removeprefix("while scanning ")
    return f" in {what} that begins in line {mark.line + 1}"


@contextmanager
def _reported(name: str, text: str) -> Iterator[None]:
    """Turn an exception of the YAML library into an error with file and line."""
    import yaml

    try:
        yield
    except yaml.YAMLError as error:
        line = _line_of(error, text)
        odd = _odd_space(name, text, line)
        if odd is not None:
            raise odd from None
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or type(error).__name__
        raise InputError(f"{name}:{line}", f"not YAML: {problem}{_open_since(error, line)}.") from None
    except (ValueError, UnicodeError) as error:
        raise InputError(name, f"not YAML: {error}.") from None


class _Builder:
    """Builds plain data from events. If `lines` is given it gets line and source text of every path."""

    def __init__(self, name: str, lines: dict[Path, tuple[int, str]] | None) -> None:
        self._name = name
        self._lines = lines
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._count = 0
        self._event: Any = None
        self._documents = 0
        self.result: Any = None

    @property
    def _line(self) -> int:
        mark = getattr(self._event, "start_mark", None)
        return mark.line + 1 if mark is not None else 1

    def _fail(self, reason: str, hint: str = "") -> InputError:
        return InputError(f"{self._name}:{self._line}", reason, hint)

    def _path(self) -> Path:
        path: list[str | int] = []
        for frame in self._stack:
            # A list further up already has the item that is being filled.
            inside = frame is not self._stack[-1]
            if isinstance(frame.container, dict) and frame.key is not None:
                path.append(frame.key)
            else:
                path.append(len(frame.container) - inside)
        return tuple(path)

    def _count_node(self, more: int = 1) -> None:
        self._count += more
        if self._count > MAX_NODES:
            raise self._fail(f"more than {MAX_NODES} values, aliases counted where they are used.")

    def _place(self, value: Any, raw: str = "") -> None:
        if self._lines is not None:
            self._lines[self._path()] = (self._line, raw)
        self._count += 1
        if self._count > MAX_NODES:
            self._count_node(0)
        if not self._stack:
            self.result = value
            return
        frame = self._stack[-1]
        container = frame.container
        if isinstance(container, list):
            container.append(value)
        elif frame.merging and isinstance(value, (dict, list)):
            # A list is filled later: its items are checked when the mapping ends.
            frame.merges.append(value)
            frame.has_key = False
        else:
            container[str(frame.key)] = value
            frame.has_key = False

    def _take_key(self, frame: _Frame, text: str) -> None:
        if text in frame.container:
            raise self._fail(f"the key {text!r} is written twice in the same mapping.", "Keep one of the two.")
        if not text.isascii() and self._event.implicit[0] and (odd := _ODD_SPACE.match(text)):
            raise _odd(f"{self._name}:{self._line}", odd[1])
        frame.key, frame.has_key = text, True

    def _wants_key(self) -> bool:
        if not self._stack:
            return False
        frame = self._stack[-1]
        return not frame.has_key and isinstance(frame.container, dict)

    def on_scalar(self, event: Any) -> None:
        """Take a key or a value."""
        if self._wants_key():
            self._take_key(self._stack[-1], event.value)
            frame = self._stack[-1]
            frame.merging = event.value == "<<" and event.implicit[0]
            if frame.merging:
                frame.merge_line = self._line
            return
        tag, value = event.tag, event.value
        if tag is not None and tag not in _TAGS:
            raise self._fail(f"the tag {tag} is not supported.", "Write plain values.")
        unquoted = tag is None and event.implicit[0]
        if unquoted and value[-3:].lower() in _NOT_FINITE_ENDS and _NOT_FINITE.match(value):
            raise self._fail(f"{value} is a number that chart values cannot hold.", f'Write "{value}" if it is a text.')
        meant = scalar(value) if unquoted else value
        if event.anchor is not None:
            self._anchors[event.anchor] = meant
        self._place(meant, value)

    def _open(self, event: Any, container: dict[str, Any] | list[Any]) -> None:
        if self._wants_key():
            raise self._fail("a mapping or list is used as a key.", "Keys are texts.")
        if len(self._stack) >= MAX_DEPTH:
            raise self._fail(f"nested deeper than {MAX_DEPTH} levels.")
        self._place(container)
        self._stack.append(_Frame(container, event.anchor))

    def on_mapping(self, event: Any) -> None:
        """Open a mapping."""
        self._open(event, {})

    def on_list(self, event: Any) -> None:
        """Open a list."""
        self._open(event, [])

    def on_end(self, _event: Any) -> None:
        """Close a mapping or a list. Merge keys add what the mapping itself does not have."""
        frame = self._stack.pop()
        if isinstance(frame.container, dict):
            named = [item for merged in frame.merges for item in (merged if isinstance(merged, list) else [merged])]
            for merged in named:
                if not isinstance(merged, dict):
                    reason = "a merge key (<<) names something that is not a mapping."
                    raise InputError(f"{self._name}:{frame.merge_line}", reason)
                for key, value in merged.items():
                    frame.container.setdefault(key, value)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = frame.container

    def on_alias(self, event: Any) -> None:
        """Insert a copy of an anchor's value."""
        if event.anchor not in self._anchors:
            raise self._fail(f"the alias *{event.anchor} names no finished anchor.")
        self._place(self._copy(self._anchors[event.anchor], len(self._stack)))

    def _copy(self, value: Any, depth: int) -> Any:
        self._count_node()
        if depth > MAX_DEPTH:
            raise self._fail(f"nested deeper than {MAX_DEPTH} levels, aliases written out.")
        if isinstance(value, dict):
            return {key: self._copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy(item, depth + 1) for item in value]
        return value

    def on_document(self, _event: Any) -> None:
        """Begin the only document."""
        self._documents += 1
        if self._documents > 1:
            raise self._fail("a second document begins.", "Put it into a file of its own.")

    def run(self, text: str) -> Any:
        """Return the data of the text's only document."""
        import yaml

        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self.on_scalar,
            yaml.MappingStartEvent: self.on_mapping,
            yaml.SequenceStartEvent: self.on_list,
            yaml.MappingEndEvent: self.on_end,
            yaml.SequenceEndEvent: self.on_end,
            yaml.AliasEvent: self.on_alias,
            yaml.DocumentStartEvent: self.on_document,
        }
        with _reported(self._name, text):
            # Events are fetched one by one: yaml.parse() would add a third to the time.
            loader = parser()(text)
            try:
                while loader.check_event():
                    self._event = loader.get_event()
                    handler = handlers.get(type(self._event))
                    if handler is not None:
                        handler(self._event)
            finally:
                loader.dispose()
        return self.result


def decode(text: str, name: str) -> Any:
    """Return the plain data of a YAML text. `name` is its source, for errors.

    Raises:
        InputError: not YAML, a duplicate key, an unsupported tag, several documents, or a limit is exceeded.
    """
    return _Builder(name, None).run(text)


def positions(text: str, name: str) -> dict[Path, tuple[int, str]]:
    """Return line and source text of every value by path. It is for error messages, where its cost does not matter."""
    lines: dict[Path, tuple[int, str]] = {}
    try:
        _Builder(name, lines).run(text)
    except InputError:
        # What was read before the error still has its lines.
        return lines
    return lines
