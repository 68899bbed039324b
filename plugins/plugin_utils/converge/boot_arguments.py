# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What grubby is told on EL, where arguments of the kernel stand in boot entries and in no drop-in.

`grubby --args` replaces every argument of the same name (rhboot/grubby grubby-bls, update_args), so whatever of a name
may stand more than once has to be told together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..outcome.errors import BringupError, InputError

# Names that may stand more than once, those that belong together beside each other; each page size is followed by its
# number of pages (Linux, Documentation/admin-guide/kernel-parameters.txt).
_REPEATED = (("console",), ("earlycon",), ("hugepagesz", "hugepages"))


def missing(wanted: Sequence[str], entry: str) -> tuple[str, ...]:
    """Return the arguments that the default boot entry lacks."""
    there = entry.split()
    return tuple(argument for argument in wanted if argument not in there)


def to_tell(wanted: Sequence[str], entry: str) -> tuple[str, ...]:
    """Return what grubby is told to add: what is missing, and with it what it would drop of the same name.

    Empty where nothing is missing, or where grubby shows no entry.
    """
    lacking = missing(wanted, entry) if entry else ()
    names = {_name(argument) for argument in lacking}
    together = {name for group in _REPEATED for name in group if names & set(group)}
    stated = [argument for argument in wanted if _name(argument) in names | together]
    others = [argument for argument in entry.split() if _name(argument) in together and argument not in stated]
    return (*others, *stated)


def problems(wanted: Sequence[str], entry: str, running: str) -> Iterator[BringupError]:
    """Yield what nobody on the host can do: it has no boot entry, and was not started with what is declared."""
    lacking = missing(wanted, running)
    if lacking and not entry:
        reason = f"{' '.join(lacking)} cannot be added: `grubby --info=DEFAULT` shows no boot entry of the host."
        fix = "state it where the host is started from (network, image), or install grubby"
        yield InputError("kernel_arguments", reason, fix)


def _name(argument: str) -> str:
    return argument.partition("=")[0]
