# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SKUs of the collection, read once: files of tests want them when they are collected, by every worker."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware

HARDWARE: dict[str, Sku] = load_hardware([Path(__file__).resolve().parents[2] / "recipes" / "hardware"])
