# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A rehearsal of a site that is kept: broken and mended while it is up, judged through the inventory that it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rehearsal_harness import Rehearsed, left_behind, rehearsal_below, rehearse

BROKEN = "gpu-missing@gpu02/gpu5"
# A site of real machines: nothing of a rehearsal reaches them, at its start and later.
HOSTS = """
all:
  hosts:
    localhost: {ansible_connection: local}
    ufm1: {ansible_host: 192.0.2.1}
  children:
    gpu_nodes:
      hosts:
        gpu01: {ansible_host: 192.0.2.2, gpufleet_rack: north-1}
        gpu02: {ansible_host: 192.0.2.3, gpufleet_rack: north-1}
  vars:
    ansible_connection: ssh
    gpufleet_site_name: north
    gpufleet_sku: "{{ own_kind }}"
    own_kind: h100
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Rehearsed]]:
    """A directory in which a rehearsal of the site was kept, after gate nodes."""
    work = tmp_path_factory.mktemp("kept")
    (work / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    try:
        yield work, rehearse(work, inventory=work / "hosts.yml", rehearsal_keep="1", gates="nodes")
    finally:
        rehearse(work, playbook="rehearse_stop.yml")
        assert not left_behind(work)


def test_faults_come_and_go_while_it_is_up(kept: tuple[Path, Rehearsed]) -> None:
    work, run = kept
    assert run.rc == 0 and "go on with it:" in run.output, run.output[-3000:]
    inventory = rehearsal_below(work) / "inventory.yml"
    done = rehearse(work, playbook="rehearse_faults.yml", rehearsal_faults=BROKEN)
    assert done.rc == 0 and f"set:    {BROKEN}" in done.output, done.output[-3000:]
    broken = rehearse(work, playbook="site.yml", inventory=inventory, gates="nodes")
    assert broken.failed() == {("nodes", "gpu-census", ("gpu02", "gpu02/gpu5"), "gpu-missing")}, broken.output[-3000:]
    refused = rehearse(work, playbook="rehearse_faults.yml", rehearsal_faults="no-subnet-manager")
    assert refused.rc != 0 and "make rehearse FAULTS=no-subnet-manager KEEP=1" in refused.output
    done = rehearse(work, playbook="rehearse_faults.yml", rehearsal_lift="all")
    assert done.rc == 0 and f"lifted: {BROKEN}" in done.output, done.output[-3000:]
    mended = rehearse(work, playbook="site.yml", inventory=inventory, gates="nodes")
    assert mended.rc == 0 and mended.record["site"] == "north", mended.output[-3000:]
