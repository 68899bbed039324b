# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a manifest file is a template of Helm: asked of every file, also where nothing is rendered."""

from __future__ import annotations


def is_template(text: str) -> bool:
    """Tell whether a manifest file has template expressions outside comments."""
    return "{{" in text and any("{{" in line.partition("#")[0] for line in text.splitlines())
