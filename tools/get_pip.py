# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands where ansible-test expects its own bootstrap script, and installs pip from the wheel lying beside it.

ansible-test makes environments without pip and would fetch that script from the internet. tools/sanity copies this
file to where ansible-test looks first. It is called like the original: requirements such as `pip==25.2`, options.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

UNKNOWN_TO_PIP = {"--no-setuptools", "--no-wheel"}


def main() -> None:
    version = next(word.partition("==")[2] for word in sys.argv if word.startswith("pip=="))
    wheel = Path(__file__).resolve().with_name(f"pip-{version}-py3-none-any.whl")
    options = [word for word in sys.argv[1:] if word not in UNKNOWN_TO_PIP and not word.startswith("pip==")]
    sys.path.insert(0, str(wheel))
    sys.argv = ["pip", "install", "--no-deps", "--no-index", *options, str(wheel)]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
