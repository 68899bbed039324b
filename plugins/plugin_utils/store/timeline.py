# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was ever said of one node and its parts, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcome.model import Status
from .database import our_errors
from .history import Store
from .tables import tables

_MOST = 200


def said_of(store: Store, site: str, node: str, *, rehearsal: bool) -> tuple[Mapping[str, Any], ...]:
    """Return the newest results about a node and its parts that were no pass, the oldest first.

    Each has `started` of the result, or of its run, `run_id`, `check_id`, `subject`, `status`, `cause` and `summary`.

    Raises:
        BringupError: the file cannot be read.
    """
    from sqlalchemy import func, select

    run, table = tables().run, tables().outcome
    when = func.coalesce(func.nullif(table.c.started, ""), run.c.started).label("when")
    columns = (table.c.run_id, table.c.check_id, table.c.subject, table.c.status, table.c.cause, table.c.summary, when)
    query = select(*columns).join(run, run.c.run_id == table.c.run_id)
    query = query.where(
        run.c.site == site,
        run.c.rehearsal.is_(rehearsal),
        table.c.node == node,
        table.c.status.in_((Status.FAILED.value, Status.OTHER.value)),
    )
    with our_errors(store.path), store.engine.begin() as connection:
        rows = connection.execute(query.order_by(when.desc(), table.c.id.desc()).limit(_MOST)).mappings().all()
    return tuple(reversed(rows))
