# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots in files and ConfigMaps: private, split where they are large, and never half of one."""

from __future__ import annotations

import base64
import json
import random
import re
import select
import socket
import ssl
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from served import served
from snapshot_api import PagedApi, cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import TlsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import (
    PART_BYTES,
    read_recipe_text,
    read_snapshot,
    write_snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.dialect import UPSTREAM_APIS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import (
    parse_snapshot,
    to_text,
    to_upstream,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Snapshot
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.pki import make_pki

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


def test_a_file_in_upstreams_words_is_its_kind_and_says_what_it_has_words_for(tmp_path: Path) -> None:
    seen, path = taken("gpu01", "gpu02"), tmp_path / "theirs.json"
    write_snapshot(seen, str(path), nobody, upstream=True)
    assert path.stat().st_mode & 0o777 == 0o600
    written = json.loads(path.read_text())
    assert (written["kind"], written["apiVersion"]) == ("Snapshot", "aicr.run/v1")
    again = read_snapshot(str(path), nobody)
    assert {name: node.labels for name, node in again.nodes.items()} == {n: e.labels for n, e in seen.nodes.items()}


@pytest.mark.parametrize("api", UPSTREAM_APIS)
def test_a_release_of_the_upstream_tool_gets_the_api_that_it_reads(tmp_path: Path, api: str) -> None:
    # IsSupportedAPIVersion of NVIDIA/aicr pkg/header/header.go knows no other than those of its release.
    path = tmp_path / "theirs.json"
    write_snapshot(taken("gpu01"), str(path), nobody, upstream=True, api=api)
    assert json.loads(path.read_text())["apiVersion"] == api
    assert read_snapshot(str(path), nobody).nodes.keys() == {"gpu01"}


def test_a_config_map_is_read_back_and_upstream_can_read_it_too() -> None:
    seen, api = taken("gpu01", "gpu02"), PagedApi({})
    assert write_snapshot(seen, PLACE, lambda: cluster_of(api)) == ()
    assert read_snapshot(PLACE, lambda: cluster_of(api)) == seen
    data = api.objects[HEAD]["data"]
    assert data["format"] == "yaml" and data["timestamp"] == seen.taken
    assert parse_snapshot(data["snapshot.yaml"], "up").nodes["gpu02"].labels == seen.nodes["gpu02"].labels


@pytest.mark.parametrize("key", ["snapshot.yaml", "snapshot.json"])
def test_one_of_upstream_is_read_by_either_of_its_keys(key: str) -> None:
    api = PagedApi({})
    api.objects[HEAD] = {"metadata": {"name": "accepted"}, "data": {key: json.dumps(to_upstream(taken("gpu01")))}}
    assert list(read_snapshot(PLACE, lambda: cluster_of(api)).nodes) == ["gpu01"]


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


@pytest.mark.parametrize("length", [63, 64, 200, 238])
def test_a_long_name_is_a_label_as_an_api_server_takes_it(length: int) -> None:
    """Kubernetes documentation, "Labels and Selectors": at most 63 characters, alphanumeric at both ends."""
    api, names = PagedApi({}), [("accepted-" * 30)[: length - 1] + last for last in "ab"]
    for name in names:
        write_snapshot(large(), f"cm://gpufleet-system/{name}", lambda: cluster_of(api))
        write_snapshot(taken("gpu01"), f"cm://gpufleet-system/{name}", lambda: cluster_of(api))
    for name in names:
        assert list(read_snapshot(f"cm://gpufleet-system/{name}", lambda: cluster_of(api)).nodes) == ["gpu01"]
    written = [body["metadata"] for path, body in api.objects.items() if "/configmaps/" in path]
    assert len(written) == 4, "each has its head and one part, and none of the parts before"
    assert max(len(metadata["name"]) for metadata in written) <= 253
    labels = {metadata["labels"]["gpufleet.io/snapshot"] for metadata in written}
    assert len(labels) == 2 and all(re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,61}[a-z0-9]", label) for label in labels)


def test_a_name_that_leaves_no_room_for_its_parts_is_refused_before_anything_is_written() -> None:
    api = PagedApi({})
    with pytest.raises(InputError, match="has a name of 239 characters"):
        write_snapshot(taken("gpu01"), f"cm://gpufleet-system/{'a' * 239}", lambda: cluster_of(api))
    assert not [path for path in api.objects if "/configmaps/" in path]


def test_what_upstream_wrote_over_it_is_not_taken_for_the_old_one() -> None:
    """NVIDIA/aicr pkg/serializer/configmap.go: by force, snapshot.yaml, format and timestamp alone."""
    seen, api = taken("gpu01"), PagedApi({})
    write_snapshot(seen, PLACE, lambda: cluster_of(api))
    later = {"snapshot.yaml": json.dumps(to_upstream(taken("gpu02"))), "timestamp": "2031-01-01T00:00:00Z"}
    api.objects[HEAD]["data"] |= later
    with pytest.raises(InputError, match=f"another tool has written there since: .* of 2031-.* of {seen.taken}"):
        read_snapshot(PLACE, lambda: cluster_of(api))


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


class Served(BaseHTTPRequestHandler):
    """Gives out a recipe and a snapshot."""

    texts: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        text = self.texts.get(self.path)
        self.send_response(404 if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "nothing here").encode())

    def log_message(self, *_args: object) -> None: ...


def test_recipe_and_snapshot_are_read_over_https_from_a_server_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    seen, recipe = taken("gpu01"), "kind: RecipeResult\n"
    monkeypatch.setattr(Served, "texts", {"/recipe.yaml": recipe, "/snapshot.json": to_text(seen)})
    pki = make_pki(tmp_path / "pki")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.cert("server"), pki.key("server"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with served(server):
        base = f"https://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(TlsError, match="TLS failed"):
            read_snapshot(f"{base}/snapshot.json", nobody)
        monkeypatch.setenv("SSL_CERT_FILE", pki.ca)
        assert read_snapshot(f"{base}/snapshot.json", nobody) == seen
        assert read_recipe_text(f"{base}/recipe.yaml", nobody) == (recipe, f"{base}/recipe.yaml")
        with pytest.raises(BringupError, match="404"):
            read_recipe_text(f"{base}/other.yaml", nobody)


class Tunnel(BaseHTTPRequestHandler):
    """A proxy for https: it joins both ends and keeps who asked for what."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_CONNECT(self) -> None:
        self.asked.append((self.path, self.headers.get("Proxy-Authorization")))
        host, _colon, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as far:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: far, far: self.connection}
            while ready := select.select(list(ends), [], [], 20)[0]:
                data = ready[0].recv(65536)
                if not data:
                    return
                ends[ready[0]].sendall(data)

    def log_message(self, *_args: object) -> None: ...


def test_an_address_beyond_a_proxy_is_reached_the_way_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    seen = taken("gpu01")
    monkeypatch.setattr(Served, "texts", {"/snapshot.json": to_text(seen)})
    monkeypatch.setattr(Tunnel, "asked", [])
    pki = make_pki(tmp_path / "pki")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.cert("server"), pki.key("server"))
    server, proxy = ThreadingHTTPServer(("127.0.0.1", 0), Served), ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", pki.ca)
    with served(server), served(proxy):
        place = f"https://127.0.0.1:{server.server_address[1]}/snapshot.json"
        monkeypatch.setenv("https_proxy", f"http://me:hunter%402@127.0.0.1:{proxy.server_address[1]}")
        assert read_snapshot(place, nobody) == seen
        login = base64.b64encode(b"me:hunter@2").decode()
        assert Tunnel.asked == [(f"127.0.0.1:{server.server_address[1]}", f"Basic {login}")]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert read_snapshot(place, nobody) == seen and len(Tunnel.asked) == 1
        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("https_proxy", "127.0.0.1:1")
        with pytest.raises(BringupError, match="no answer"):
            read_snapshot(place, nobody)


def test_a_recipe_is_read_from_a_config_map_by_its_key_or_as_its_only_one() -> None:
    api = PagedApi({})
    for data in ({"recipe.yaml": "kind: RecipeResult", "note": "x"}, {"any": "kind: RecipeResult"}):
        api.objects[HEAD] = {"metadata": {"name": "accepted"}, "data": data}
        assert read_recipe_text(PLACE, lambda: cluster_of(api)) == ("kind: RecipeResult", PLACE)
    api.objects[HEAD] = {"metadata": {"name": "accepted"}, "data": {"a": "1", "b": "2"}}
    with pytest.raises(InputError, match=r"holds no recipe.yaml: it has a, b"):
        read_recipe_text(PLACE, lambda: cluster_of(api))
