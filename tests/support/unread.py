# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells whether a piece is of a text that no parser reads: with and without it, the parsers return the same value.

What tools of hosts print, what the pods of NCCL and of the training log, and what AIPerf exports is read by parsers
alone. A parser that passes over what it should read is shown by its own tests; here is what it does read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from thinning import Piece, without

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_named
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

# By the beginning of a file, the parsers of all of it.
_OF_FILES = {
    "evidence/fabric_validation/": ("nccl_tests", "nccl_debug"),
    "evidence/training_acceptance/": ("training_log",),
    "evidence/inference_acceptance/": ("aiperf",),
}
_TIMES = re.compile(r"_(after|again|\d+)$")


def is_unread(run_dir: Path, piece: Piece) -> bool:
    """Tell whether the parsers of a piece's text say the same without it; False where it has none."""
    if not piece.path:
        return False
    as_json = piece.file.endswith(".json")
    text = (run_dir / piece.file).read_text(encoding="utf-8")
    for start, parsers in _OF_FILES.items():
        if piece.file.startswith(start):
            return _alike(parsers, text, without(text, piece, as_json=as_json))
    if not as_json or len(piece.path) < 4 or piece.path[0] != "tools" or piece.path[2] != "stdout":
        return False
    said = _document(text)["tools"][piece.path[1]]["stdout"]
    inner = Piece(piece.file, ("said", *piece.path[3:]), piece.how)
    thin = json.loads(without(json.dumps({"said": said}), inner, as_json=True))["said"]
    parser = {tool.name: tool.parser for tool in load_host_tools().tools}[_TIMES.sub("", str(piece.path[1]))]
    return _alike((parser,), said, thin)


@lru_cache(maxsize=4)
def _document(text: str) -> Any:
    return json.loads(text)


def _alike(parsers: Sequence[str], text: str, thin: str) -> bool:
    return all(_value(parser_named(name), text) == _value(parser_named(name), thin) for name in parsers)


def _value(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except InputError as error:
        return str(error)
