# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is done about nodes that are bad, as a site states it. Nothing unless it says so. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..outcome.errors import InputError
from ..runtime.strict import decode

LABEL, CORDON, SLURM_DRAIN, WEBHOOK = "label", "cordon", "slurm_drain", "webhook"
ACTS = (LABEL, CORDON, SLURM_DRAIN, WEBHOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is done about a bad node, beside the report, which is always written.

    `acts`: `label` (the class as a label of the node), `cordon` (taint and cordon with our mark), `slurm_drain` (drain
    with our reason), `webhook` (a POST to `webhook_url`). `breaker_percent`: most nodes of the site, and of a cohort,
    that may be out of service by us; beyond it nothing more is taken out. `budget`: most nodes that one cycle takes
    out. `give_back`: whether what we took out returns once it is healthy.
    """

    acts: tuple[str, ...] = ()
    breaker_percent: float = 10.0
    budget: int = 5
    give_back: bool = True
    webhook_url: str = ""
    webhook_ca_file: str = ""
    webhook_token_file: str = ""
    webhook_timeout_s: float = 10.0
    scontrol: str = "scontrol"

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: the field, what it says, and what it may say.
        """
        unknown = sorted(set(self.acts) - set(ACTS))
        if unknown:
            said = f"names {', '.join(map(repr, unknown))}, expected {', '.join(ACTS)} or nothing."
            raise InputError("continuous policy acts", said, "acts: [label, cordon]")
        if {CORDON, SLURM_DRAIN} <= set(self.acts):
            said = "names cordon and slurm_drain, and one of them owns the nodes."
            raise InputError("continuous policy acts", said, "acts: [cordon], or acts: [slurm_drain]")
        if not 0 < self.breaker_percent <= 100:
            said = f"is {self.breaker_percent:g}, expected more than 0 and at most 100."
            raise InputError("continuous policy breaker_percent", said, "breaker_percent: 10")
        if self.budget < 0:
            raise InputError("continuous policy budget", f"is {self.budget}, expected 0 or more.", "budget: 5")
        if not 0 < self.webhook_timeout_s <= 60:
            said = f"is {self.webhook_timeout_s:g}, expected more than 0 and at most 60."
            raise InputError("continuous policy webhook_timeout_s", said, "webhook_timeout_s: 10")
        if (WEBHOOK in self.acts) != bool(self.webhook_url):
            said = "and webhook_url go together, found only one of them."
            raise InputError("continuous policy act webhook", said, "acts: [webhook] and webhook_url: https://...")
        if self.webhook_url and urlsplit(self.webhook_url).scheme != "https" and not _on_this_machine(self.webhook_url):
            said = "is not https; a token would be read on its way."
            raise InputError("continuous policy webhook_url", said, "webhook_url: https://...")

    @property
    def takes_out(self) -> bool:
        """Whether it takes nodes out of service."""
        return bool({CORDON, SLURM_DRAIN} & set(self.acts))


def policy_of(stated: Mapping[str, Any]) -> Policy:
    """Return the policy that a site states by the names of its fields.

    Raises:
        ProblemsError: names that are not known, and values that mean nothing.
    """
    return decode(Policy, dict(stated), "gpufleet_continuous_policy")


def _on_this_machine(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
