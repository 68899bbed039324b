# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What comes after a run that did not pass: the gates that were not observed, and how to start again. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..outcome.gates import GATE_IDS
from ..outcome.model import Status
from ..runtime.text import shell_word
from .run import RunRecord, can_open, undecided_gates

# A refused command, in a form that can be typed again: without the words that the problem is about. Pure.

_GATES = "gpufleet_gates"
_NAMES_INVENTORY = ("-i", "--inventory")
PLACE = "<...>"
# What a rehearsal broke: the repeated run, on a repaired cluster, is to pass.
_FAULTS = "gpufleet_rehearsal_faults"
WAVE_ABORT = "gpufleet_wave_abort"
# A command that holds the cluster is quoted; another playbook may be the next step.
_OTHER_COMMAND = re.compile(r"`[^`]*`|\bansible-playbook [\w./][^),;\n]*")
_ENTRY = re.compile(r"\n\s*\d+\. ")


def without_mistakes(command: str, problem: str) -> str:
    """Return the command with each word that the problem is about corrected, left out, or replaced by a placeholder.

    A misspelled name is corrected, also within a value, where one name is near it. A variable stays with the value from
    the first fix, else with a placeholder: a run without it may cover more than intended, and a shell refuses the
    placeholder. Tags become the gates that they name. Where no word was the mistake, the variable of the first fix is
    added. Commands that the problem quotes or advises are no mistakes of this one.
    """
    problem = _OTHER_COMMAND.sub("", problem)
    pairs = _pairs(command)
    if pairs is None:
        return command
    # Two mistakes may be about the same: tags, and the variable that is meant instead.
    parts: list[str] = []
    for option, value in pairs:
        part = " ".join(_corrected(option, value, problem))
        if part and not (part.startswith("-e ") and part in parts):
            parts.append(part)
    name, value = _first_way_on(problem)
    as_it_was = " ".join(parts) == " ".join(" ".join(_words(*pair)) for pair in pairs)
    added = ["-e", f"{name}={value}"] if name and as_it_was and name not in command else []
    # A missing value gets a placeholder.
    for missing in dict.fromkeys(re.findall(r"Fix: state it: -e (gpufleet_\w+)=\.\.\.", problem)):
        added += [] if missing in command else ["-e", f"{missing}={PLACE}"]
    if "-i INVENTORY" in problem and not inventories_of(command):
        added += ["-i", PLACE]
    return " ".join([*parts, *added])


def inventories_of(command: str) -> tuple[str, ...]:
    """Return the inventories that the command names with -i."""
    return tuple(value for option, value in _pairs(command) or () if option in _NAMES_INVENTORY and value)


def _first_way_on(problem: str) -> tuple[str, str]:
    """Return the variable that the first fix sets, and its value; empty where the fix is something else.

    Only a word, or an option of a check, is taken: a path is an example, capitals are a placeholder. A fix for an
    option is read with that option, and another playbook is another command.
    """
    found = re.search(r"(?m)^(?!\s*(?:\d+\. )?--).*?Fix: (.*)$", _OTHER_COMMAND.sub("", problem))
    first = re.split(r",? or |; ", found[1])[0] if found else ""
    word = re.search(r"-e (gpufleet_\w+)=([\w-]+(?:\.[\w-]+)+=\w+|[\w,-]*\w)(?=[\s.,;)?]*(?:$|[\s(]))", first)
    return ("", "") if word is None or word[2].isupper() else (word[1], word[2])


def without_faults(command: str) -> str:
    """Return the command without what it broke in a rehearsal."""
    return _without(command, _FAULTS)


def _without(command: str, name: str) -> str:
    pairs = _pairs(command)
    if pairs is None:
        return command
    kept = []
    for option, value in pairs:
        extra = option in ("-e", "--extra-vars")
        found = _mapping(value) if extra else None
        if found is not None and name in found:
            rest = {key: item for key, item in found.items() if key != name}
            kept += [option, shell_word(json.dumps(rest))] if rest else []
        elif not (extra and value.startswith(f"{name}=")):
            kept += _words(option, value)
    return " ".join(kept)


def _pairs(command: str) -> list[tuple[str, str]] | None:
    """Return the words: each option that can be mistaken with its value, all others with an empty one."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    pairs: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option in _OPTIONS and equals:
            pairs.append((option, value))
        elif word in _OPTIONS and words:
            pairs.append((word, words.pop(0)))
        elif word[:2] in _OPTIONS and word not in _OPTIONS:
            # -ihosts.yml is -i hosts.yml.
            pairs.append((word[:2], word[2:]))
        else:
            pairs.append((word, ""))
    return pairs


def _mapping(text: str) -> dict[str, Any] | None:
    """Return a mapping from JSON; text that is shown without its secrets may not parse."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _words(option: str, value: str) -> list[str]:
    return [shell_word(option), *([shell_word(value)] if value else [])]


def _corrected(option: str, value: str, problem: str) -> Sequence[str]:
    correct = _OPTIONS.get(option)
    return _words(option, value) if correct is None or not value else list(correct(option, value, problem))


def _about(option: str, problem: str) -> bool:
    """Return whether a problem of the list is about this option: its subject begins with it."""
    return bool(re.search(rf"(?:^|\n\s*\d+\. ){re.escape(option)} ", problem))


def _extra(option: str, value: str, problem: str) -> Iterator[str]:
    if value.startswith("{"):
        mapping = _mapping(value)
        yield from _structured(option, mapping, problem) if mapping is not None else _words(option, value)
        return
    name, equals, quoted = value.partition("=")
    if _refused(name, problem):
        return
    if not (name.startswith("gpufleet_") and equals and quoted):
        yield from _words(option, value)
        return
    found = _name(name, problem)
    if f"did you mean {found}, which is " in _unknown(name, problem):
        # The value is not valid for the variable that was meant.
        yield from (option, f"{found}={PLACE}")
    elif found == name and _wrong(name, quoted.strip("'\""), problem):
        yield from (option, "=".join(_meant(name, quoted, problem)))
    elif found:
        yield from _words(option, f"{found}={quoted}")


def _meant(name: str, value: str, problem: str) -> tuple[str, str]:
    """Return the variable and the value that were meant.

    They come from the fixes of the problems with it, or from the one name that is near a wrong one in it. Where a
    problem has neither, the value is a placeholder.
    """
    title, *entries = _ENTRY.split(problem)
    about = [entry for entry in entries or [title] if _wrong(name, value.strip("'\""), entry)]
    for entry in about:
        other, way = _first_way_on(entry)
        if other and (other == name or "did you mean -e" in entry):
            name, value = other, way
        else:
            value = _with_near_name(value, entry)
    return name, value if about and value else PLACE


def _with_near_name(value: str, entry: str) -> str:
    """Return the value with the wrong word replaced by the only name that is near it; empty where that is unknown.

    The wrong word is the last one in quotes, or where settings are refused, the last one of the subject.
    """
    found, _fix, way = entry.partition("Fix: ")
    near = re.match(r"[Dd]id you mean ('?)([\w.@/-]+)\1\?", way)
    wrong = re.search(r"'([^']+)'[^']*$", found) or re.match(r"gpufleet_settings\.(?:[\w-]+\.)*([\w-]+):", found)
    if near is None or wrong is None:
        return ""
    new, count = re.subn(rf"(?<![\w-]){re.escape(wrong[1])}(?![\w-])", lambda unused: near[2], value)
    return new if count == 1 else ""


def _structured(option: str, found: dict[str, Any], problem: str) -> Iterator[str]:
    found = {name: value for name, value in found.items() if not _refused(name, problem)}
    named: dict[str, Any] = {}
    places: list[str] = []
    for name, value in found.items():
        if _unknown(name, problem) or not _wrong(name, json.dumps(value), problem):
            named[_name(name, problem)] = value
            continue
        meant, text = _meant(name, json.dumps(value), problem)
        if text == PLACE:
            places += [option, _place_of(name, value)]
        else:
            named[meant] = _plain(text)
    named.pop("", None)
    if named:
        yield from _words(option, json.dumps(named))
    yield from places


def _plain(text: str) -> Any:
    """Return the JSON value; a fix gives a plain word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _refused(name: str, problem: str) -> bool:
    """Return whether the problem is that this is an extra variable at all."""
    return bool(re.search(rf"\b{re.escape(name)}: is an extra variable", problem))


def _place_of(name: str, value: Any) -> str:
    """Return a placeholder for the value, in the form that it has to have: mappings are JSON."""
    entries = isinstance(value, list) and any(isinstance(entry, dict) for entry in value)
    if not entries and not isinstance(value, dict):
        return f"{name}={PLACE}"
    place = f"[{PLACE}]" if entries else f"{{{PLACE}}}"
    return f"'{{\"{name}\": {place}}}'"


def _unknown(name: str, problem: str) -> str:
    """Return the text of the problem after `is no variable of this collection`, empty if that is not the problem."""
    found = re.search(rf"\b{name}: is no variable of this collection(.*)", problem)
    return found[1] if found else ""


def _name(name: str, problem: str) -> str:
    """Return the name. An unknown one is replaced by the name that was meant, empty where that is unknown."""
    rest = _unknown(name, problem)
    meant = re.search(r"did you mean (gpufleet_\w+)(?:\?|, which is )", rest)
    return name if not rest else meant[1] if meant else ""


def _wrong(name: str, value: str, problem: str) -> bool:
    """Return whether the problem is about a value: it is quoted there, or is there unquoted as a path or by
    name."""
    # Options of checks are reported by their final place.
    checks = re.findall(r"([\w-]+)\.[\w.-]+\s*=", value) if name == "gpufleet_set" else []
    # An option is refused with the variable that has the effect it was meant to have.
    problem = re.sub(r"(?m)^(\s*\d+\. )?--.*$", "", problem)
    subject = value not in GATE_IDS and re.search(rf"(?m)^(?:\s*\d+\. )?{re.escape(value)}: ", problem)
    about = f"'{value}'" in problem or ("/" in value and value in problem) or bool(subject)
    return (
        about
        or any(f"gpufleet_settings.{check}" in problem for check in checks)
        or (name == "gpufleet_criteria" and bool(re.search(r"(?m)^(?:\s*\d+\. )?criteria \w+: ", problem)))
        or bool(re.search(rf"\b{re.escape(name)}\b", problem))
    )


def _tag(tag: str, problem: str) -> str:
    """Return the tag, or the gate, that a misspelled one was meant to be; else the tag."""
    found = re.search(rf"--tags {re.escape(tag)}: .*?did you mean --tags ([\w-]+)\?", problem)
    gate = re.search(rf"--tags {re.escape(tag)}: .*?-e {_GATES}=([\w-]+) limits", problem)
    return found[1] if found else gate[1] if gate else tag


def _tags(option: str, value: str, problem: str) -> Iterator[str]:
    tags = value.split(",")
    if not _about("--tags", problem):
        yield from _words(option, value)
    elif "plan" in (meant := [_tag(tag, problem) for tag in tags]):
        yield from _words(option, "plan")
    else:
        gates = [tag for tag in meant if tag in GATE_IDS]
        yield from ("-e", f"{_GATES}={','.join(gates) or PLACE}")


def _skipped(option: str, value: str, problem: str) -> Iterator[str]:
    left = [gate for gate in GATE_IDS if gate not in value.split(",")]
    if not _about("--skip-tags", problem):
        yield from _words(option, value)
    elif len(left) < len(GATE_IDS):
        yield from ("-e", f"{_GATES}={','.join(left) or PLACE}")


def _left_out(name: str) -> Callable[[str, str, str], Iterator[str]]:
    """Return a function that leaves an option out where the problem is about it."""

    def correct(option: str, value: str, problem: str) -> Iterator[str]:
        if not _about(name, problem):
            yield from _words(option, value)

    return correct


def _inventory(option: str, value: str, problem: str) -> Iterator[str]:
    meant = re.search(rf"-i {re.escape(value)}: does not exist.*?(?:did you mean -i (\S+)\?|$)", problem, re.MULTILINE)
    if meant is None:
        yield from _words(option, value)
    else:
        yield from (option, shell_word(meant[1]) if meant[1] else PLACE)


_OPTIONS: dict[str, Callable[[str, str, str], Iterator[str]]] = {
    "-e": _extra, "--extra-vars": _extra, "-t": _tags, "--tags": _tags, "--skip-tags": _skipped,
    "-l": _left_out("--limit"), "--limit": _left_out("--limit"), "--start-at-task": _left_out("--start-at-task"),
    "-i": _inventory, "--inventory": _inventory,
}  # fmt: skip


VARIABLE = "gpufleet_from_gate"


def not_looked_at(record: RunRecord) -> tuple[str, ...]:
    """Return the gates in scope that stay pending because one that they depend on did not pass."""
    if record.work is not None:
        return ()
    pending = (gate for gate in record.scope if record.gate(gate).status is Status.PENDING)
    return tuple(gate for gate in pending if not can_open(record, gate))


def restart(record: RunRecord) -> str:
    """Return how to start the run again at its first gate that did not pass, empty if there is none.

    It is the command line of the run. Where that is unknown, as in AWX, it is the variable to set. A start at a gate
    needs the passes of the gates before it, so without a history the run starts where it started.
    """
    if record.work is not None and not record.problem:
        if record.work.passed or record.work.again is None or record.check_mode:
            return ""
        # An aborted roll has ended: the same command again would end the next one.
        return _command(replace(record, command=_without(record.command, WAVE_ABORT)), record.work.again)
    on_hold = [gate for gate in record.scope if _on_hold(record, gate)]
    if not on_hold and record.interrupted:
        on_hold = [*undecided_gates(record)]
    if not on_hold and not record.problem:
        return _command(record, "") if record.interrupted else ""
    if on_hold:
        return _from_gate(record, on_hold[0])
    start = _start_meant(record) if record.problem else record.from_gate
    return _command(record, f"{VARIABLE}={start}" if start else "")


def unfinished(record: RunRecord) -> str:
    """Return how to go on with an interrupted run of gates, at its first gate without a verdict.

    Empty for a run that ended by itself. Call it only for a run that is over: one that goes on looks the same.
    """
    if record.work is not None or record.validates or record.check_mode or restart(record):
        return ""
    left = undecided_gates(record)
    return _from_gate(record, left[0]) if left else ""


def way_on(record: RunRecord) -> tuple[str, str]:
    """Return when to start a run again, and the command; empty where there is nothing to start again."""
    if command := restart(record):
        ended = record.problem or record.interrupted
        goes_on = record.work is not None and not record.work.sentence and not ended
        return "If it is no longer at work, start again" if goes_on else "Start again", command
    command = unfinished(record)
    return ("If it is no longer at work, start again", command) if command else ("", "")


def interrupted_lines(record: RunRecord) -> list[str]:
    """Return that a run of gates ended before they did, and how to go on with it; empty for any other."""
    command = unfinished(record)
    return ["", "interrupted: the run ended before its gates did", f"again: {command}"] if command else []


def _from_gate(record: RunRecord, gate: str) -> str:
    """Return the command that goes on at a gate. Without a history, or at the first gate, it is the whole run again."""
    return _command(record, f"{VARIABLE}={gate}" if record.history and gate != record.scope[0] else "")


def _start_meant(record: RunRecord) -> str:
    """Return the gate at which a refused run should start: the one that its problem names, if it names one."""
    name, value = _first_way_on(record.problem)
    if name == VARIABLE:
        return value
    # The command of a run is kept without its start.
    wrong = re.search(rf"\b{VARIABLE}: .*? is not a gate\.(?: Fix: did you mean (\w+)\?)?", record.problem)
    return (wrong[1] or PLACE) if wrong else record.from_gate


def _command(record: RunRecord, assignment: str) -> str:
    if record.kept_command:
        # A second rehearsal would be refused; and this one goes on without the faults with which it began.
        return f"{record.kept_command} -e {assignment}" if assignment else record.kept_command
    if not record.command:
        return f"launch it with {assignment}" if assignment else "launch it once more"
    problem = record.problem
    command = without_mistakes(record.command, problem) if problem else without_faults(record.command)
    return f"{command} -e {assignment}" if assignment and f"-e {assignment}" not in command else command


def _on_hold(record: RunRecord, gate: str) -> bool:
    verdict = record.gate(gate)
    return verdict.status is not Status.PENDING and not verdict.opens_next
