# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The elements of what a tool printed, and which of them a parser reads: those without which its value is another one.

An element is a leaf of an XML document (`gpu/ecc_mode/current_ecc`), a leaf of a JSON document (`Fans/*/Reading`), or
the name before a colon on a line (`Symbol BER`). Of a kernel log it is a kind of lines: the first words of a driver of
GPUs, adapters or drives, with `N` for what has a digit (`NVRM: GPU N RmInitAdapter failed!`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

_LINE = re.compile(r"(?m)^([ \t]*)([A-Za-z][\w .\[\]/()-]{0,60}?)([ \t]*:[ \t]*)(\S.*)$")
_DRIVERS = re.compile(r"\b(?:NVRM|nvidia-nvswitch\d*|nvidia-peermem|mlx5_core|nvme|EDAC|pcieport|infiniband)\b.*")
_WORDS = 5
# What stands in the place of a value: a word of a flag, a number, and nonsense, which a strict parser refuses.
_OTHERS = ("Yes", "77", "zzz")


def elements(kind: str, text: str) -> tuple[str, ...]:
    """Return the elements of a text, each once, in its order."""
    return tuple(dict.fromkeys(path for path, _variant in _variants(kind, text) if path))


def read_elements(kind: str, text: str, parse: Callable[[str], Any]) -> frozenset[str]:
    """Return the elements whose first value decides what `parse` makes of the text."""
    variants = _variants(kind, text)
    usual = parse(next(variants)[1])
    return frozenset(path for path, variant in variants if _differs(parse, variant, usual))


def _differs(parse: Callable[[str], Any], text: str, usual: Any) -> bool:
    """Whether the value is another one; a text that is refused because of an element is one in which it is read."""
    try:
        return bool(parse(text) != usual)
    except InputError:
        return True


def _variants(kind: str, text: str) -> Iterator[tuple[str, str]]:
    """Return the text as it is without an element, then for each element with other values in its first place."""
    return {"xml": _xml, "json": _json, "lines": _lines, "kernel": _kernel}[kind](text)


def _xml(text: str) -> Iterator[tuple[str, str]]:
    root = ElementTree.fromstring(text[text.find("<nvidia_smi_log") :])
    # GPUs of one document have the same elements, and clocks are thousands of lines.
    for extra in root.findall("gpu")[1:]:
        root.remove(extra)
    for gpu in root.findall("gpu"):
        for clocks in gpu.findall("supported_clocks"):
            gpu.remove(clocks)
    yield "", ElementTree.tostring(root, encoding="unicode")
    done: set[str] = set()
    for path, leaf in _leaves(root, ""):
        if path in done:
            continue
        done.add(path)
        value = leaf.text
        for other in _OTHERS:
            leaf.text = other
            yield path, ElementTree.tostring(root, encoding="unicode")
        leaf.text = value


def _leaves(element: ElementTree.Element, above: str) -> Iterator[tuple[str, ElementTree.Element]]:
    for child in element:
        path = f"{above}/{child.tag}" if above else child.tag
        if len(child):
            yield from _leaves(child, path)
        else:
            yield path, child


def _lines(text: str) -> Iterator[tuple[str, str]]:
    yield "", text
    done: set[str] = set()
    for match in _LINE.finditer(text):
        if match[2] not in done:
            done.add(match[2])
            for other in _OTHERS:
                yield match[2], f"{text[: match.start(4)]}{other}{text[match.end(4) :]}"


def _kernel(text: str) -> Iterator[tuple[str, str]]:
    yield "", text
    lines = text.splitlines()
    kinds = [_kind(line) for line in lines]
    for kind in dict.fromkeys(filter(None, kinds)):
        # In its place stands a line that says nothing, since parsers count lines.
        quiet = [_DRIVERS.sub("quiet", line) if own == kind else line for line, own in zip(lines, kinds, strict=True)]
        yield kind, "\n".join(quiet) + "\n"


def _kind(line: str) -> str:
    """Return the first words of a line of such a driver, empty for any other line."""
    match = _DRIVERS.search(line)
    if match is None:
        return ""
    speaker, *words = match[0].split()[:_WORDS]
    return " ".join([speaker.rstrip("0123456789:"), *("N" if re.search(r"\d", word) else word for word in words)])


def _json(text: str) -> Iterator[tuple[str, str]]:
    start, end = text.find("{"), text.rfind("}") + 1
    document, length = json.JSONDecoder().raw_decode(text[start:])
    end = start + length
    yield "", text
    done: set[str] = set()
    for path, holder, key in _places(document, ""):
        if path not in done:
            done.add(path)
            value = holder[key]
            for other in (*_OTHERS, 77):
                holder[key] = other
                yield path, text[:start] + json.dumps(document) + text[end:]
            holder[key] = value


def _places(value: Any, above: str) -> Iterator[tuple[str, Any, Any]]:
    """Return path, holder and key of every leaf; what is in a list has `*` in the place of its number."""
    entries = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, entry in entries:
        name = key if isinstance(value, dict) else "*"
        path = f"{above}/{name}" if above else name
        if isinstance(entry, dict | list) and entry:
            yield from _places(entry, path)
        else:
            yield path, value, key
