# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A rehearsal that was kept: broken and mended by commands, and judged through the inventory that it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from rehearsal_harness import rehearse
from shared_site import SharedSite

BROKEN = "gpu-missing@gpu02/gpu5"


@pytest.mark.drawn(2, of="runs after one that passed")
def test_faults_come_and_go_while_it_is_up(site: SharedSite, tmp_path: Path) -> None:
    assert "go on with it:" in site.first.output
    # What the reports of the first run name is no second rehearsal, which would be refused.
    kept = site.first.record["kept_command"]
    assert " gpufleet.bringup.site -i " in kept and f"  {kept}\n" in site.first.output.replace("\r\n", "\n")
    done = rehearse(site.work, playbook="rehearse_faults.yml", rehearsal_faults=BROKEN)
    assert done.rc == 0 and f"set:    {BROKEN}" in done.output, done.output[-3000:]
    try:
        broken = site.play(tmp_path, gates="nodes")
        assert broken.failed() == {("nodes", "gpu-census", ("gpu02", "gpu02/gpu5"), "gpu-missing")}, broken.output[
            -3000:
        ]
        refused = rehearse(site.work, playbook="rehearse_faults.yml", rehearsal_faults="no-subnet-manager")
        assert refused.rc != 0 and "make rehearse FAULTS=no-subnet-manager KEEP=1" in refused.output
    finally:
        done = rehearse(site.work, playbook="rehearse_faults.yml", rehearsal_lift="all")
    assert done.rc == 0 and f"lifted: {BROKEN}" in done.output, done.output[-3000:]
    mended = site.play(tmp_path, gates="nodes")
    assert mended.rc == 0, mended.output[-3000:]
