# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rehearsal that all tests in tests/rehearsal/shared use: it passed all gates, was kept, and each test leaves it as
it found it. What they run on it, they run by the inventory that it wrote, each file in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from gate_bench import KeptRehearsal, kept_rehearsal
from live_site import LiveSite
from model_watch import watched
from rehearsal_harness import Rehearsed, rehearse
from waiting import eventually

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.changing import change_faults
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import INVENTORY_FILE

NODES = 4
# A site of real machines: nothing of a rehearsal reaches them, at its start and later.
HOSTS: dict[str, Any] = {
    "all": {
        "hosts": {"localhost": {"ansible_connection": "local"}, "ufm1": {"ansible_host": "192.0.2.99"}},
        "children": {
            "gpu_nodes": {
                "hosts": {
                    f"gpu{number:02d}": {
                        "ansible_host": f"192.0.2.{number}",
                        "gpufleet_bmc": f"192.0.2.{100 + number}",
                        "gpufleet_rack": "north-1",
                    }
                    for number in range(1, NODES + 1)
                }
            }
        },
        "vars": {"ansible_connection": "ssh", "gpufleet_sku": "{{ own_kind }}", "own_kind": "h100"},
    }
}
WATCH = "watch"
# Secrets as a site has them: in values of a chart, in the environment of pods, in a URL.
SECRETS: dict[str, Any] = {
    "overrides": {"kube-prometheus-stack": {"grafana": {"adminPassword": "two cAnArY1, words"}}},
    "settings": {
        "training_acceptance": {"env": {"WANDB_API_KEY": "cAnArY2"}},
        "inference_acceptance": {"hub": "https://bob:cAnArY3@hub.example.org", "arguments": ["--api-key", "cAnArY4"]},
    },
}


class SharedSite(KeptRehearsal):
    """The rehearsal, and its first run, over all gates."""

    @property
    def live(self) -> LiveSite:
        """The same as a site that belongs to no controller."""
        return LiveSite(self.work, Path(self.kubeconfig))

    @property
    def inventory(self) -> Path:
        """The inventory that the rehearsal wrote."""
        return self.model.parent / INVENTORY_FILE

    def play(self, directory: Path, playbook: str = "site.yml", cmdline: str = "", **stated: Any) -> Rehearsed:
        """Run a playbook on it from a directory, whose `.run` then has the run and its history."""
        done = rehearse(directory, playbook=playbook, inventory=self.inventory, cmdline=cmdline, **stated)
        # The next run there is its latest.
        return replace(done, run_dir=done.run_dir.resolve())

    @contextmanager
    def broken(self, *faults: str) -> Iterator[None]:
        """Let it have these faults meanwhile, as `make rehearse-faults` sets and lifts them."""
        change_faults(self.model.parent, faults, ())
        try:
            yield
        finally:
            change_faults(self.model.parent, (), ["all"])


@contextmanager
def shared_site(work: Path) -> Iterator[SharedSite]:
    """Run all gates on a healthy rehearsal, with secrets and every process watched; yield it; end it."""
    hosts = work / "hosts.yml"
    hosts.write_text(yaml.safe_dump(HOSTS), encoding="utf-8")
    with ExitStack() as ends:
        with watched(work / WATCH):
            kept = ends.enter_context(kept_rehearsal(work, inventory=hosts, **SECRETS))
        site = SharedSite(kept.work, kept.first)
        try:
            yield site
        finally:
            # The API server takes a moment to empty the last namespace.
            eventually(lambda: not site.live.tests() and not site.live.holder(), what=site.live.tests)
