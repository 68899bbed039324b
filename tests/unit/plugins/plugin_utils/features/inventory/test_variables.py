# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The names that a user may state: all that pages and examples show, and no other."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.variables import (
    former_names,
    known,
    options,
    renamed,
    unknown_names,
)

# The generators are no part of the collection: they are modules of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[6]))

from tools.pages import REFERENCE, reference_page

# Metrics, and what tests of hosts are called: no variables.
METRICS = ("gpufleet_bringup_", "gpufleet_continuous_", "gpufleet_drift_")


def shown(repository: Path) -> dict[str, str]:
    """Every name with our prefix in pages and examples, with a file that shows it."""
    files = [repository / "README.md", repository / "Makefile"]
    for pattern in ("docs/*.md", "inventories/**/*", "plugins/modules/*.py", "extensions/molecule/**/*.yml"):
        files += [path for path in repository.glob(pattern) if path.is_file()]
    texts = {str(path.relative_to(repository)): path.read_text("utf-8") for path in files}
    texts |= {page: reference_page(page) for page in REFERENCE}
    return {name: path for path, text in texts.items() for name in re.findall(r"\bgpufleet_[a-z0-9_]+", text)}


def test_what_pages_and_examples_show_is_known(repository: Path) -> None:
    names = shown(repository)
    assert len(names) > 100
    unknown = {name: path for name, path in names.items() if name not in known()}
    # A name that ends with an underscore is the beginning of several.
    assert {name: path for name, path in unknown.items() if not name.startswith(METRICS) and name[-1] != "_"} == {}


def test_pages_show_no_variable_without_our_prefix(repository: Path) -> None:
    text = "\n".join(path.read_text("utf-8") for path in repository.glob("docs/*.md"))
    text += "".join(reference_page(page) for page in REFERENCE)
    inner = {name for name in options() if not name.startswith("gpufleet_")}
    assert "nodes_run_dir" in inner
    assert {name for name in inner | set(former_names()) if re.search(rf"(?<!\w){name}\b", text)} == set()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpufleet_gate", "did you mean gpufleet_gates?"),
        ("gpufleet_quarantin", "did you mean gpufleet_quarantine?"),
        ("gpufleet_wavers", "did you mean gpufleet_waivers?"),
        ("gpufleet_minimum_node", "did you mean gpufleet_minimum_nodes?"),
        ("gpufleet_driver_ower", "did you mean gpufleet_driver_owner?"),
        ("gpufleet_rak", "did you mean gpufleet_rack?"),
        ("gpufleet_zzz_own", "remove it; a variable of your own does not begin with gpufleet_"),
    ],
)
def test_a_misspelled_name_is_said_with_the_nearest(name: str, hint: str) -> None:
    (error,) = unknown_names("extra variable", [name, "gpufleet_gates", "own", "ansible_user"])
    assert (error.subject, error.hint) == (name, hint)


def test_names_of_before_are_read_and_have_a_new_name() -> None:
    prefixes = {name.partition("_")[0] for name in former_names()}
    assert prefixes == {"converge", "fabric", "facility", "gpu", "nodes", "rbac"}
    assert renamed(["gpu_stack_adopt", "gpufleet_gates", "own"]) == {"gpu_stack_adopt": "gpufleet_gpu_stack_adopt"}
    assert set(former_names().values()) <= known()
