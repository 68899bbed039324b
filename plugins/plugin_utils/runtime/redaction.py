# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets never reach outcomes, logs, reports or evidence."""

from __future__ import annotations

import re

MASK = "[redacted]"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MASK),
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key|client-key-data)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;]+"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\w+://[^/\s:@]+:)[^/\s@]+@"), rf"\1{MASK}@"),
    (re.compile(r"\b(hf_|nvapi-|ghp_|sk-)[A-Za-z0-9_-]{16,}"), MASK),
)


def redact(text: str) -> str:
    """Return the text with keys, tokens, passwords and credentials in URLs masked."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def excerpt(text: str, limit: int = 1200) -> str:
    """Return the redacted text, at most `limit` characters, cut in the middle and saying so."""
    clean = redact(text).strip()
    if len(clean) <= limit:
        return clean
    half = (limit - 40) // 2
    return f"{clean[:half]}\n[... {len(clean) - 2 * half} characters cut ...]\n{clean[-half:]}"
