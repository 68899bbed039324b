# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every function that reads a tool's output does so in linear time, whatever stands in it and however long its lines.

Functions are found by their place and hostile text by their own expressions, so a new parser is tried as it comes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils import probe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_place
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.text import LONGEST_LINE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

LARGE, LIMIT_S = 4 * 2**20, 2.0
# A part of it is enough for the words of a tool: what is not linear takes a hundred times its limit.
PART, PART_LIMIT_S = LARGE // 16, 0.5
LINES = 16
ALPHABET = ("a", " ", "0", "[", "{", "\x1b[")
# The first parameter of what reads output, and what the others are given.
READS = {"text", "log", "message", "status"}
OTHERS: dict[str, Any] = {
    "what": "resource",
    "mark": "AIPERF",
    "redact": lambda text: text,
    "tool": "tool",
    "name": "name",
    "job_id": "41",
}
# Words of a pattern, with escaped signs.
_WORDS = re.compile(r"(?:\\[ .\[\](){}#/:-]|[A-Za-z0-9 :,<>'\"/=_#;!@-]){3,}")


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(probe.__path__):
        yield importlib.import_module(f"{probe.__name__}.{found.name}")
    # Parsers of one check stand in its file.
    places = {parser_place(tool.parser)[0] for tool in load_host_tools().tools}
    yield from (importlib.import_module(name) for name in sorted(places) if not name.startswith(probe.__name__))


def _readers() -> dict[str, tuple[ModuleType, Callable[[str], Any]]]:
    readers: dict[str, tuple[ModuleType, Callable[[str], Any]]] = {}
    for module in _modules():
        for name, function in inspect.getmembers(module, inspect.isfunction):
            first, *others = inspect.signature(function).parameters or [""]
            if name.startswith("_") or function.__module__ != module.__name__ or first not in READS:
                continue
            given = {other: OTHERS[other] for other in others}
            short = f"{module.__name__.rpartition('.')[2]}.{name}"
            readers[short] = (module, lambda text, function=function, given=given: function(text, **given))
    return readers


READERS = _readers()


def _patterns(value: Any) -> Iterator[str]:
    if isinstance(value, re.Pattern):
        yield value.pattern
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _patterns(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _patterns(getattr(value, name, None))


def _words(module: ModuleType) -> list[str]:
    """The words that a module's expressions and constants look for, alone and before what may follow them."""
    found = set()
    for name, value in vars(module).items():
        if isinstance(value, str) and not name.startswith("__") and 3 <= len(value) <= 40:
            found.add(value)
        for pattern in _patterns(value):
            words = [re.sub(r"\\(.)", r"\1", word) for word in _WORDS.findall(pattern)]
            found |= {word + end for word in words for end in ("", "0", "a ")}
    return sorted(found)


@contextlib.contextmanager
def _within(limit_s: float, what: str) -> Iterator[None]:
    """Fail what takes longer, by the processor's clock; an expression that would take hours is interrupted."""

    def ended(_number: int, _frame: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, ended)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s * 2)
    # A collection of the garbage of all tests before takes most of a second.
    gc.disable()
    started = time.process_time()
    try:
        with contextlib.suppress(InputError):
            yield
    except TimeoutError:
        pytest.fail(f"{what}: more than {limit_s * 2:g} s")
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    taken_s = time.process_time() - started
    assert taken_s < limit_s, f"{what}: {taken_s:.2f} s"


def _filled(word: str, size: int) -> str:
    return (word * (size // len(word) + 1))[:size]


@pytest.mark.drawn(30)
@pytest.mark.parametrize("name", READERS)
def test_four_mebibytes_in_one_line_take_less_than_two_seconds(name: str) -> None:
    _module, read = READERS[name]
    for sign in ALPHABET[:4]:
        with _within(LIMIT_S, f"{name} of {sign!r}"):
            read(_filled(sign, LARGE))


@pytest.mark.drawn(30)
@pytest.mark.parametrize("name", READERS)
def test_words_of_the_tool_repeated_are_read_in_linear_time(name: str) -> None:
    module, read = READERS[name]
    for word in (*_words(module), *ALPHABET):
        line = _filled(word.replace("\n", " "), LONGEST_LINE - 2)
        with _within(PART_LIMIT_S, f"{name} of {word!r} in one line"):
            read(_filled(word, PART))
        with _within(PART_LIMIT_S, f"{name} of {word!r} in long lines"):
            read(f"{line}\n" * LINES)


def test_every_parser_is_tried_with_words_of_its_own() -> None:
    assert len(READERS) > 30
    parsers = [name for name in READERS if name.endswith(".parse")]
    named = [module for module in _modules() if hasattr(module, "parse")]
    # One parser reads a list of documents, each of which another function of the room reads.
    assert len(parsers) == len(named) - 1
    assert "kernel_log.parse" in parsers and "NVRM: Xid " in "".join(_words(READERS["kernel_log.parse"][0]))


def test_a_quadratic_expression_is_found() -> None:
    with pytest.raises(pytest.fail.Exception), _within(0.2, "x"):
        re.search(r"x\S*.*y", "x" * 100_000)
