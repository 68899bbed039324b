# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A burn-in says what it left in the cluster, however it ends, and refuses nodes that no pod can load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in.model import ROUNDS, Soak
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.burn_in import (
    keep,
    refuse_without_kubernetes,
    told_what_is_left,
)

SOAK = Soak(hours=1.0, tests=("dl_unit",), hosts=("gpu01",))


@contextmanager
def place(*left: str) -> Iterator[Any]:
    """A namespace that finds at its end what cannot be removed."""
    namespace = SimpleNamespace(leftovers=[])
    try:
        yield namespace
    finally:
        namespace.leftovers += left


def test_what_is_left_is_written_to_the_rounds(tmp_path: Path) -> None:
    with told_what_is_left(tmp_path, place("namespace gpufleet-burn-in-1: forbidden")):
        keep(tmp_path, SOAK)
    assert load(Soak, tmp_path / ROUNDS).leftovers == ("namespace gpufleet-burn-in-1: forbidden",)


def test_it_is_written_also_where_the_burn_in_is_interrupted(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), told_what_is_left(tmp_path, place("pod dl-unit-1-0")):
        keep(tmp_path, SOAK)
        raise KeyboardInterrupt
    assert load(Soak, tmp_path / ROUNDS).leftovers == ("pod dl-unit-1-0",)


def test_nothing_is_said_where_nothing_is_left(tmp_path: Path) -> None:
    with told_what_is_left(tmp_path, place()):
        keep(tmp_path, SOAK)
    assert load(Soak, tmp_path / ROUNDS) == SOAK


def test_nodes_of_slurm_are_refused_by_that_name() -> None:
    site = replace(make_site(), orchestrator="slurm")
    with pytest.raises(InputError, match="Slurm gives its nodes work") as refused:
        refuse_without_kubernetes(site)
    assert "drain the nodes in Slurm" in refused.value.hint


def test_a_site_without_kubernetes_is_refused_and_one_with_it_is_not() -> None:
    with pytest.raises(InputError, match="has no Kubernetes"):
        refuse_without_kubernetes(replace(make_site(), capabilities=()))
    refuse_without_kubernetes(replace(make_site(), capabilities=("kubernetes",)))
