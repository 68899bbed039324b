# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The measurements of a cluster that a recipe's constraints may name."""

from __future__ import annotations

SERVER_VERSION = "K8s.server.version"
OS_ID = "OS.release.ID"
OS_VERSION = "OS.release.VERSION_ID"
KERNEL_RELEASE = "OS.sysctl./proc/sys/kernel/osrelease"
MEASURED = (SERVER_VERSION, OS_ID, OS_VERSION, KERNEL_RELEASE)
