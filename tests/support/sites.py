# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The sites of tests: what a test does not state is as at a small site on premises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile


def make_site(hosts: Iterable[Host] = (), **stated: Any) -> Site:
    """Return a site called `lab` with these hosts; `stated` are other fields of Site, or other values of these."""
    fields: dict[str, Any] = {"name": "lab", "profile": SiteProfile.ON_PREMISES, **stated}
    return Site(hosts=tuple(hosts), **fields)
