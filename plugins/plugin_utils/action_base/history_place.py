# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the history is for every module that has an option `store`: a server if the user states one, else the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.template import Templar

from ..outcome.errors import InputError
from ..store.place import VARIABLE, place_of, url_from

ENVIRONMENT = "GPUFLEET_STORE_URL"


def with_server(options: dict[str, Any], task_vars: Mapping[str, Any], templar: Templar) -> dict[str, Any]:
    """Return the options with the URL of the history in the place of its file, where one is stated.

    The URL has a password, so no task passes it on: arguments of tasks are shown and kept.

    Raises:
        BringupError: what is stated is not a URL of a PostgreSQL database, or its file cannot be read.
    """
    if "store" not in options:
        return options
    stated = templar.template(task_vars.get(VARIABLE) or "") or os.environ.get(ENVIRONMENT, "")
    if not isinstance(stated, str):
        raise InputError(
            VARIABLE, f"is {type(stated).__name__}; expected text.", "write a URL, or the path of its file"
        )
    url = url_from(stated.strip())
    if not url:
        return options
    place_of(url)
    return {**options, "store": url}
