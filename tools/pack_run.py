# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packs a run directory for the tests that read the runs of earlier releases.

    python tools/pack_run.py .run/latest tests/data/saved_runs/NAME.tar.xz

Kept is what judging needs; reports are made again from it. Directories of the machine that made the run are replaced.
The same run always gives the same bytes. Look through the archive before it is committed: it must not hold a secret.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

_DIRECTORIES = ("ctrf", "evidence", "observations")
_FILES = (
    "baseline", "cabling", "cluster", "component_stack", "declared", "digests", "hardware", "recipe", "run", "settings",
    "site",
)  # fmt: skip
KEPT = (*_DIRECTORIES, *(f"{name}.json" for name in _FILES))
# A path of the machine up to the part that says something about the run.
_PLACES = re.compile(r"(?<![\w./])/(?:[\w.-]+/)+?(?=facility/|cabling\.yaml|helm\b)")


def cleaned(text: str) -> str:
    """Return the text without directories of the machine that made the run."""
    return _PLACES.sub("/srv/site/", text)


def _digest_again(data: dict[str, bytes]) -> None:
    """Put the digests of the files as they are packed in the place of those that the run took."""
    covered = [name for name in json.loads(data["digests.json"]) if name in data]
    digests = {name: hashlib.sha256(data[name]).hexdigest() for name in covered}
    data["digests.json"] = json.dumps(digests, indent=2).encode()
    record = json.loads(data["run.json"]) | {"digests": hashlib.sha256(data["digests.json"]).hexdigest()}
    data["run.json"] = json.dumps(record, indent=2).encode()


def pack(run_dir: Path, archive: Path) -> None:
    """Write what judging needs of a run into a compressed archive."""
    run_dir = run_dir.resolve()
    if not (run_dir / "run.json").is_file():
        raise SystemExit(f"{run_dir} holds no run (no run.json)")
    found = [path for path in sorted(run_dir.rglob("*")) if path.is_file()]
    kept = [path for path in found if path.relative_to(run_dir).parts[0] in KEPT]
    data = {path.relative_to(run_dir).as_posix(): cleaned(path.read_text(encoding="utf-8")).encode() for path in kept}
    if "digests.json" in data:
        _digest_again(data)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in data.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    verdicts = {gate["gate"]: gate["status"] for gate in json.loads((run_dir / "run.json").read_text())["gates"]}
    print(f"{archive}: {len(kept)} files, {archive.stat().st_size} bytes; {verdicts}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
