# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The errors that a user can get, each with its exit code.

Tree::

    BringupError            8  something could not be established
      InputError            2  what the user gave is wrong (inventory, variable, file, recipe)
      NotFoundError         3  a named thing does not exist
      DeadlineError         5  a time limit ran out
      UnavailableError      8  a service or tool does not respond, or refuses
      AbortedError          9  the operator or the system ended the run
"""

from __future__ import annotations

from typing import Any, ClassVar

from .wording import count, first_of

_SHOWN = 3


class BringupError(Exception):
    """An error that a user can act on.

    Args:
        subject: what was looked at (a file, a host, a variable, a check).
        reason: what was found and what was expected, one sentence.
        hint: what to do next, with the command where there is one.
        evidence: short quotes of what was read, already redacted.
    """

    exit_code: ClassVar[int] = 8

    def __init__(self, subject: str, reason: str, hint: str = "", evidence: tuple[str, ...] = ()) -> None:
        super().__init__(subject, reason, hint, evidence)
        self.subject = subject
        self.reason = reason
        self.hint = hint
        self.evidence = evidence
        # Report of the run that the error stopped, which has it in full. Empty for an error outside a run.
        self.told_in = ""

    def __str__(self) -> str:
        text = f"{self.subject}: {self.reason}"
        return f"{text} Fix: {self.hint}" if self.hint else text

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON: kind, subject, reason, hint, evidence, exit_code."""
        return {
            "kind": type(self).__name__,
            "subject": self.subject,
            "reason": self.reason,
            "hint": self.hint,
            "evidence": list(self.evidence),
            "exit_code": self.exit_code,
        }


class InputError(BringupError):
    """What the user gave is wrong."""

    exit_code = 2


class NotFoundError(BringupError):
    """A named thing does not exist."""

    exit_code = 3


class DeadlineError(BringupError):
    """A time limit ran out."""

    exit_code = 5


class UnavailableError(BringupError):
    """A service or tool does not respond, or refuses."""


class AbortedError(BringupError):
    """The operator or the system ended the run."""

    exit_code = 9


class ProblemsError(InputError):
    """Several problems found in one pass, shown as one list.

    Args:
        subject: what was looked at.
        problems: every problem; never empty.
    """

    def __init__(self, subject: str, problems: tuple[BringupError, ...]) -> None:
        if not problems:
            raise ValueError("ProblemsError needs at least one problem")
        # The count is that of the lines: one problem of hundreds of hosts is one line.
        lines = tuple(_told_once(problems))
        super().__init__(subject, f"{count(len(lines), 'problem')} found.", evidence=lines)
        self.problems = problems

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.reason}"]
        return "\n".join(lines + [f"  {n}. {problem}" for n, problem in enumerate(self.evidence, 1)])


def _told_once(problems: tuple[BringupError, ...]) -> list[str]:
    """Return a line for each problem. The same problem of several subjects is one line with some of their names.

    Fields of one file (`draft: racks.17.power_kw`) get a line each, since every one has to be completed.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        field = problem.subject if problem.subject.partition(" ")[0].endswith(":") else ""
        alike.setdefault((str(problem).removeprefix(problem.subject), field), []).append(problem.subject)
    return [f"{_names(subjects)}{_of(subjects, text)}" for (text, _field), subjects in alike.items()]


def _of(subjects: list[str], text: str) -> str:
    """Return the text in the plural where it is about several subjects."""
    return text.replace(": has ", ": have ", 1) if len(set(subjects)) > 1 and text.startswith(": has ") else text


def _names(subjects: list[str]) -> str:
    """Return several subjects as one text: `hosts gpu01, gpu02, gpu03 and 497 more`."""
    found = list(dict.fromkeys(subjects))
    kinds = {subject.partition(" ")[0] for subject in found}
    if len(found) == 1 or len(kinds) > 1 or not all(" " in subject for subject in found):
        return first_of(found, _SHOWN)
    kind = kinds.pop()
    # The name of a variable is one word for all hosts.
    return f"{kind}{'' if '_' in kind else 's'} {first_of([subject.partition(' ')[2] for subject in found], _SHOWN)}"
