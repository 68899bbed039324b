# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the logs of tests of nodes are kept: `<test>/<node>/<test>_<node>_<epoch>.log.gz`."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

from ..runtime.files import write_atomic_bytes

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """The directory of all logs; what is kept there is named by its path below it."""

    directory: Path

    def keep(self, test: str, node: str, epoch_s: float, text: str) -> str:
        """Write the log of a test and return its path below the directory; a blank one is not written.

        Raises:
            UnavailableError: it cannot be written.
        """
        if not text.strip():
            return ""
        name = _UNFIT.sub("_", node)
        path = f"{test}/{name}/{test}_{name}_{int(epoch_s)}.log.gz"
        write_atomic_bytes(self.directory / path, gzip.compress(text.encode("utf-8"), mtime=0))
        return path

    def read(self, path: str) -> str:
        """Return the text of a log that was kept."""
        return gzip.decompress((self.directory / path).read_bytes()).decode("utf-8", errors="replace")
