# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a cluster does not do yet whose API server was away: its controllers and schedulers come back later than it.

Who looks at the server only afterwards cannot know that it was away, so this is told by what is missing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...runtime.backoff import Backoff
from ...runtime.clock import Deadline

if TYPE_CHECKING:
    from .answered import Answered

# How much later. Reflectors of client-go try again after 30 to 60 s (kubernetes/client-go, tools/cache/reflector.go:
# NewExponentialBackoffManager with at most 30 s and jitter 1); then they read what there is.
CONTROLLERS_LATE_S = 75.0
# The account that every pod of ours has; kube-controller-manager makes it after the namespace
# (kubernetes/kubernetes#66689).
_NO_ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount \\?"default\\?" not found')


def awaits_account(message: str) -> bool:
    """Tell whether a pod is refused because its namespace has no service account yet: no right is missing."""
    return _NO_ACCOUNT.search(message) is not None


def once_accounted(ask: Callable[[], Answered]) -> Answered:
    """Send a request until its namespace has the account, at most CONTROLLERS_LATE_S; return the last answer."""
    backoff, deadline = Backoff(), Deadline.after(CONTROLLERS_LATE_S)
    while True:
        answer = ask()
        late = answer.status == 403 and awaits_account(answer.data.decode("utf-8", errors="replace"))
        if not late or deadline.left_s <= 0:
            return answer
        time.sleep(min(backoff.pause_s(), deadline.left_s))
