# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What says that a cluster is that of a rehearsal, on the object whose UID tells it from every other."""

from __future__ import annotations

# Annotation of the namespace kube-system.
MARK = "gpufleet.io/rehearsal"
