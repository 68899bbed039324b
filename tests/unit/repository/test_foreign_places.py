# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No file names a package registry or a path of the machine that it was written on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

# In pieces, or this file would find itself.
REGISTRIES = (
    "pypi." + "org",
    "pythonhosted." + "org",
    "npmjs." + "org",
    "yarnpkg." + "com",
    "proxy.golang." + "org",
    "sum.golang." + "org",
    "crates." + "io",
    "rubygems." + "org",
    "galaxy.ansible." + "com",
)
# Not within a longer path: `chroot/root/x` and `{{ overlay }}/root/` are nobody's home.
START = r"(?<![\w.}\])/-])"
MACHINE_PATHS = (START + r"/(?:work|root|farm)/", r"/tmp/(?:ven" + r"v|toolbi" + r"n)\b")
FOREIGN = re.compile("|".join((*map(re.escape, REGISTRIES), *MACHINE_PATHS)))


def foreign_places(text: str) -> list[str]:
    return [match.group() for match in FOREIGN.finditer(text)]


@pytest.mark.parametrize(
    "text",
    [
        "index-url = https://" + REGISTRIES[0] + "/simple",
        "GOPROXY=https://" + REGISTRIES[4],
        "cd /" + "work/main",
        "path: /" + "root/.kube/config",
        "/tmp/" + "venv/bin/mypy",
    ],
    ids=["index", "module proxy", "checkout", "home", "own environment"],
)
def test_a_foreign_place_is_seen(text: str) -> None:
    assert foreign_places(text)


@pytest.mark.parametrize("text", ["run_dir/root/etc", "{{ overlay }}/root/", "the network/work split", "chroot/root/x"])
def test_an_ordinary_path_is_not(text: str) -> None:
    assert foreign_places(text) == []


def test_no_file_names_a_foreign_place(repository: Path, files: tuple[Path, ...]) -> None:
    here = re.compile(f"{START}(?:{re.escape(str(repository))}|{re.escape(str(Path.home()))})/")
    found = []
    for name in files:
        for number, line in enumerate((repository / name).read_text("utf-8", "replace").splitlines(), 1):
            places = foreign_places(line) + here.findall(line)
            found += [f"{name}:{number}: {place}" for place in places]
    assert found == []
