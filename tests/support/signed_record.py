# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the room of the example inventory, signed by its owner."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path


def sign_record(facility: Path) -> None:
    """Issue the record of the example anew, and sign it as its owner, who is listed among those who may."""
    record, today = facility / "record.yaml", datetime.now(UTC).date()
    text = record.read_text(encoding="utf-8")
    for word, days in (("issued", -30), ("expires", 300)):
        text = re.sub(rf"^{word}: .*$", f"{word}: {today + timedelta(days=days)}", text, flags=re.MULTILINE)
    record.write_text(text, encoding="utf-8")
    key = facility / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = " ".join((facility / "key.pub").read_text(encoding="utf-8").split()[:2])
    with (facility / "allowed_signers").open("a", encoding="utf-8") as signers:
        signers.write(f'facility@example.org namespaces="gpufleet-facility" {public}\n')
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "gpufleet-facility", "record.yaml"]
    subprocess.run(sign, cwd=facility, check=True, capture_output=True)
