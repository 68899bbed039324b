# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots in files and ConfigMaps: private, split where they are large, and never half of one."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from snapshot_api import PagedApi, cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_cluster import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import (
    PART_BYTES,
    read_snapshot,
    write_snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.decode import parse_snapshot
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Snapshot

PLACE = "cm://ops/accepted"
HEAD = "/api/v1/namespaces/ops/configmaps/accepted"


def taken(*names: str) -> Snapshot:
    return collect_cluster(cluster_of(everything([node(name) for name in names], [])), "gpufleet.bringup 0.0.0")


def large() -> Snapshot:
    """Return a snapshot that is more than one ConfigMap even when it is packed."""
    draw = random.Random(7)
    seen = taken("gpu01")
    noise = {f"example.org/{n}": f"{draw.getrandbits(240):060x}" for n in range(40_000)}
    return replace(seen, nodes={"gpu01": replace(seen.nodes["gpu01"], labels=noise)})


def nobody() -> Cluster:
    raise AssertionError("no cluster is needed")


def parts(api: PagedApi) -> list[str]:
    return [path.rpartition("/")[2] for path in api.objects if path.startswith(f"{HEAD}-")]


def test_a_file_is_read_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    seen, path = taken("gpu01"), tmp_path / "snapshot.json"
    assert write_snapshot(seen, str(path), nobody) == ()
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_snapshot(str(path), nobody) == seen


def test_a_config_map_is_read_back_and_upstream_can_read_it_too() -> None:
    seen, api = taken("gpu01", "gpu02"), PagedApi({})
    assert write_snapshot(seen, PLACE, lambda: cluster_of(api)) == ()
    assert read_snapshot(PLACE, lambda: cluster_of(api)) == seen
    data = api.objects[HEAD]["data"]
    assert data["format"] == "yaml" and data["timestamp"] == seen.taken
    assert parse_snapshot(data["snapshot.yaml"], "up").nodes["gpu02"].labels == seen.nodes["gpu02"].labels


def test_a_large_one_is_split_and_says_who_can_read_it() -> None:
    seen, api = large(), PagedApi({})
    (warning,) = write_snapshot(seen, PLACE, lambda: cluster_of(api))
    assert "only this collection reads it" in warning
    assert len(parts(api)) > 1
    sizes = [len(json.dumps(found)) for found in api.objects.values()]
    assert max(sizes) < 1.4 * PART_BYTES
    assert read_snapshot(PLACE, lambda: cluster_of(api)) == seen


def test_a_new_one_in_its_place_leaves_no_part_of_the_old() -> None:
    api = PagedApi({})
    write_snapshot(large(), PLACE, lambda: cluster_of(api))
    api.objects[f"{HEAD}-of-somebody-else"] = {"metadata": {"name": "accepted-of-somebody-else"}, "data": {}}
    write_snapshot(taken("gpu01"), PLACE, lambda: cluster_of(api))
    own = json.loads(api.objects[HEAD]["data"]["parts"])
    assert sorted(parts(api)) == sorted([*own, "accepted-of-somebody-else"])


@pytest.mark.parametrize("damage", ["part", "digest", "format", "empty"])
def test_what_is_not_whole_is_refused(damage: str) -> None:
    api = PagedApi({})
    write_snapshot(taken("gpu01"), PLACE, lambda: cluster_of(api))
    data = api.objects[HEAD]["data"]
    if damage == "part":
        api.objects[f"{HEAD}-{parts(api)[0].removeprefix('accepted-')}"]["binaryData"]["part"] = "AAAA"
    elif damage == "digest":
        data["sha256"] = "0" * 64
    elif damage == "format":
        data["gpufleet-format"] = "gpufleet-snapshot/9"
    else:
        api.objects[HEAD]["data"] = {"other": "x"}
    with pytest.raises(InputError, match=r"not whole|digest is|is of format|holds no snapshot"):
        read_snapshot(PLACE, lambda: cluster_of(api))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("http://example.org/snapshot.json", "is not https"),
        ("cm://only-a-name", "is no ConfigMap"),
        ("/nowhere/snapshot.json", "cannot be read"),
    ],
)
def test_a_place_that_is_none_is_refused(place: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_snapshot(place, nobody)


def test_nothing_is_written_to_an_address() -> None:
    with pytest.raises(InputError, match="can only be read"):
        write_snapshot(taken("gpu01"), "https://example.org/x", nobody)
