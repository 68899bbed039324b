# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which images of tests are named by a tag, which a registry may give to another image tomorrow."""

from __future__ import annotations

import re

from ..check.kit.settings_layers import Loaded
from ..site.model import Site

# Checks and tests with an image of their own.
_CHECKS = {
    "gang-admission": "gpu_stack", "dra-allocation": "gpu_stack", "gpu-containers": "gpu_stack",
    "dl_unit": "fabric_validation", "job-networking": "fabric_validation",
}  # fmt: skip
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def image_lines(settings: Loaded, site: Site) -> list[str]:
    """Return what a person should know of the images of its gates' tests, as lines; nothing where all have a digest, or
    where nothing is pulled, in a rehearsal.

    Args:
        settings: every setting that applies, by gate or check id and name.
        site: its gates, and whether it is a rehearsal's.
    """
    scope = set() if site.rehearsal else set(site.gates)
    names = [
        f"{key}.{name}"
        for key, entries in sorted(settings.items())
        for name, entry in sorted(entries.items())
        if (name == "image" or name.endswith("_image"))
        and (key in scope or (key in _CHECKS and _CHECKS[key] in scope))
        and not _DIGEST.search(str(entry.value))
    ]
    if not names:
        return []
    count = f"{len(names)} test images are" if len(names) > 1 else "1 test image is"
    pins = "so the registry decides what runs; do: state NAME@sha256:DIGEST in gpufleet_settings for"
    return [f"{count} named by tag alone, {pins}: {', '.join(names)}"]
