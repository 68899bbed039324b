# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The mirror of stand-in charts: names, bytes, faults, and CRDs that are named as the real ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from archives import files_in

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.chart import (
    crd_document,
    load_stand_ins,
    parse_crd,
    stand_in_for,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror, chart_ref
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import load_catalogue


def _read(path: Path, name: str) -> Any:
    return json.loads(files_in(path.read_bytes())[name])


def _ref(name: str, chart: str = "", version: str = "v1.0.0") -> dict[str, str]:
    return {"name": name, "chart": chart or name, "version": version, "type": "Helm"}


def test_packages_are_named_as_a_mirror_names_them(tmp_path: Path) -> None:
    refs = [_ref("operator", "nvidia/gpu-operator", "v25.3.4"), _ref("other", "oci-chart", "1.2.3")]
    paths = build_mirror(tmp_path / "new" / "mirror", refs)
    assert [path.name for path in paths] == ["gpu-operator-v25.3.4.tgz", "oci-chart-1.2.3.tgz"]
    chart = _read(paths[0], "gpu-operator/Chart.yaml")
    assert (chart["name"], chart["version"]) == ("gpu-operator", "v25.3.4")
    assert sorted(path.name for path in (tmp_path / "new" / "mirror").iterdir()) == sorted(p.name for p in paths)


def test_an_unknown_chart_has_the_workloads_that_its_registry_entry_states(tmp_path: Path) -> None:
    stated = [{"kind": "Deployment", "name": "acme-main"}, {"kind": "StatefulSet", "name": "acme-store"}]
    acme, volcano = stand_in_for("acme", stated).workloads, stand_in_for("volcano", stated).workloads
    assert [(found.kind, found.name) for found in acme] == [("Deployment", "acme-main"), ("StatefulSet", "acme-store")]
    assert volcano == load_stand_ins()["volcano"].workloads
    assert [found.kind for found in stand_in_for("plain").workloads] == ["Deployment"]
    (path,) = build_mirror(tmp_path, [{**_ref("acme"), "workloads": stated}])
    texts = [content.decode() for content in files_in(path.read_bytes()).values()]
    assert sum('"kind": "StatefulSet"' in text and "acme-store" in text for text in texts) == 1


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    refs = [_ref(name) for name in load_stand_ins()]
    first, second = build_mirror(tmp_path / "a", refs), build_mirror(tmp_path / "b", refs)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_states_of_the_model_break_exactly_their_chart(tmp_path: Path) -> None:
    refs = [_ref("volcano"), _ref("cert-manager"), _ref("kueue")]
    healthy = {path.name: path.read_bytes() for path in build_mirror(tmp_path / "healthy", refs)}
    broken = build_mirror(tmp_path / "broken", refs, {"volcano": "never-ready", "kueue": "install-fails"})
    found = {path.name: path.read_bytes() for path in broken}
    assert sorted(found) == ["cert-manager-v1.0.0.tgz", "volcano-v1.0.0.tgz"]
    assert found["cert-manager-v1.0.0.tgz"] == healthy["cert-manager-v1.0.0.tgz"]
    plain = gzip.decompress(found["volcano-v1.0.0.tgz"])
    assert plain.count(b"CrashLoopBackOff") == 1
    assert b"CrashLoopBackOff" not in gzip.decompress(healthy["volcano-v1.0.0.tgz"])


@pytest.mark.parametrize("kind", ["Kustomize", "manifest"])
def test_what_is_not_a_chart_is_left_out(kind: str) -> None:
    assert chart_ref({"name": "x", "source": "somewhere", "type": kind, "version": "1"}) is None
    assert chart_ref({"name": "x", "type": "Helm"}) is None


@pytest.mark.parametrize(
    "component",
    [
        {"chart": "x", "version": "1"},
        {"name": "x", "chart": "x"},
        {"name": "x", "chart": "x", "version": "../../etc/1"},
        {"name": "x", "chart": "..", "version": ""},
    ],
)
def test_a_reference_that_is_not_whole_is_refused(component: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        build_mirror(tmp_path, [component])


@pytest.mark.parametrize("line", ["", "v1 Kind kinds Cluster", "a/v1 Kind kinds Everywhere", "a/v1 K ks Cluster stats"])
def test_a_crd_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(InputError):
        parse_crd(line)


def test_an_unknown_chart_gets_one_deployment() -> None:
    assert [workload.kind for workload in stand_in_for("nobody-knows").workloads] == ["Deployment"]


def test_crds_are_named_as_the_real_ones(shared: Path) -> None:
    real = {path.name.removesuffix(".yaml"): path for path in (shared / "crds").glob("*/*.yaml")}
    compared = 0
    for stand_in in load_stand_ins().values():
        for crd in stand_in.crds:
            path = real.get(f"{crd.plural}.{crd.group}")
            if path is None:
                continue
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            loader.add_constructor("tag:yaml.org,2002:value", lambda load, node: load.construct_scalar(node))
            spec = yaml.load(path.read_text(), Loader=loader)["spec"]
            ours = crd_document(crd)["spec"]
            assert (ours["scope"], ours["names"]["kind"]) == (spec["scope"], spec["names"]["kind"]), path.name
            version = next(entry for entry in spec["versions"] if entry["name"] == crd.version)
            assert crd.status == ("status" in version.get("subresources", {})), path.name
            compared += 1
    assert compared > 30


BROKEN = {
    (change.at.removeprefix("cluster.stack.components."), str(change.set))
    for fault in load_catalogue().values()
    for change in fault.patch
    if change.at.startswith("cluster.stack.components.") and change.set in ("never-ready", "image-missing")
}


@pytest.mark.parametrize(("component", "state"), sorted(BROKEN))
def test_every_fault_of_a_component_is_in_what_is_installed(tmp_path: Path, component: str, state: str) -> None:
    (path,) = build_mirror(tmp_path, [_ref(component)], {component: state})
    texts = [content.decode() for content in files_in(path.read_bytes()).values()]
    assert any("rehearsal.gpufleet.invalid/fault" in text for text in texts)


def test_a_component_that_could_not_show_its_fault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no workload that could show CrashLoopBackOff"):
        build_mirror(tmp_path, [_ref("gateway-api")], {"gateway-api": "never-ready"})
