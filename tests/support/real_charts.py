# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real charts that somebody fetched, in the place of the stand-ins, on a rehearsal's control plane.

Each recipe is installed, planned again, upgraded, put back and removed by the product; a chart's line says what became
of it. The API server, its admission and its controllers are real; pods are simulated, so a webhook that a pod would
answer is asked for nothing (a condition of our own is laid over it), Jobs end well and do nothing, and a
conversion webhook stays down.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from catalogue_bench import LIMITS, CatalogueBench, Leaf, catalogue_bench, leaves
from cluster_bench import CHARTS
from looking import LookingAlone

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import with_drift
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.holdings import holdings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import Component
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import plan_removal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import Remover
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import ChartRef, chart_ref
from tools.chart_files import files_of

Json = dict[str, Any]
STEPS = ("installed", "again", "upgraded", "rolled back", "removed")
_GROUP = "admissionregistration.k8s.io/v1"
_POLICIES = Kind(_GROUP, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
_BINDINGS = Kind(_GROUP, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False)
_WEBHOOKS = tuple(
    Kind(_GROUP, f"{word}WebhookConfiguration", f"{word.lower()}webhookconfigurations", namespaced=False)
    for word in ("Validating", "Mutating")
)
_ASKED_NOTHING = {"name": "nobody-answers.rehearsal.gpufleet.invalid", "expression": "false"}
POLICY = "images.rehearsal.gpufleet.invalid"
_NUMBERS = re.compile(r"(v?\d+\.\d+\.)(\d+).*")
_WILD = re.compile(r"v?\d+(?:\.[\dx*]+)*(?:-[\w.]+)?")


@dataclass(frozen=True)
class RealChart:
    """A chart as its files are; `version` as they say, which in a source tree may be a placeholder."""

    name: str
    version: str
    files: Mapping[str, bytes]


@dataclass
class Row:
    """What became of one chart in one recipe: a word for each step, and the first words that were not good."""

    recipe: str
    component: str
    said: dict[str, str] = field(default_factory=dict)
    message: str = ""

    def take(self, step: str, word: str, message: str, good: Iterable[str]) -> None:
        """Keep a step's word, and why where it is not one of the good ones."""
        self.said[step] = word
        if word not in good and not self.message:
            self.message = f"{step}: {message}"

    @property
    def good(self) -> bool:
        """Whether every step ended well."""
        return not self.message


def found_charts(directory: Path) -> dict[str, tuple[RealChart, ...]]:
    """Return the charts of a directory's directories and archives, by name, the lowest version first.

    Raises:
        InputError: there are none, or one is not readable.
    """
    found: dict[str, list[RealChart]] = {}
    for path in (*_trees(directory), *sorted(directory.glob("**/*.tgz"))):
        files = files_of(path)
        about = _about(str(path), files)
        found.setdefault(str(about["name"]), []).append(RealChart(str(about["name"]), str(about["version"]), files))
    if not found:
        raise InputError(str(directory), "has no chart.", "give a directory of charts: trees or what `helm pull` wrote")
    return {name: tuple(sorted(charts, key=lambda one: _order(one.version))) for name, charts in found.items()}


def _trees(directory: Path) -> Iterator[Path]:
    """Yield directories of charts, without those inside of a chart."""
    if (directory / "Chart.yaml").is_file():
        yield directory
        return
    for below in sorted(path for path in directory.iterdir() if path.is_dir() and not path.is_symlink()):
        yield from _trees(below)


def _about(name: str, files: Mapping[str, bytes]) -> Json:
    try:
        about = next(iter(documents(files.get("Chart.yaml", b"").decode("utf-8-sig"))), None) or {}
    except ValueError as error:
        raise InputError(f"{name}: Chart.yaml", f"is not YAML: {error}.") from None
    if not isinstance(about, dict) or "name" not in about or "version" not in about:
        raise InputError(f"{name}: Chart.yaml", "has no name or no version.", "give charts")
    return about


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def next_version(version: str) -> str:
    """Return a version just above."""
    match = _NUMBERS.fullmatch(version)
    return f"{match[1]}{int(match[2]) + 1}" if match else f"{version}.1"


@dataclass(frozen=True)
class RealBench(CatalogueBench):
    """A cluster whose mirror has real charts where somebody fetched them."""

    real: dict[str, tuple[RealChart, ...]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    pins: dict[str, str] = field(default_factory=dict)

    def components(self, recipe: Mapping[str, Any]) -> tuple[Component, ...]:
        """Return the components of a recipe, real charts over the stand-ins of its mirror."""
        for ref in self.refs(recipe):
            if ref.chart in self.real:
                self.pins.setdefault(ref.chart, ref.version)
        return super().components(recipe)

    def fill(self, recipe: Mapping[str, Any]) -> None:
        """Write the mirror: stand-ins, and what is real."""
        super().fill(recipe)
        for ref in self.refs(recipe):
            if ref.chart in self.real:
                self._package(ref)

    def refs(self, recipe: Mapping[str, Any]) -> list[ChartRef]:
        """Return the charts of a recipe."""
        return [ref for entry in recipe["componentRefs"] if (ref := chart_ref(entry)) is not None]

    def of(self, ref: ChartRef) -> RealChart:
        """Return the chart to take: what says that version, else the lowest for the pin and the highest for another."""
        charts = self.real[ref.chart]
        same = [one for one in charts if one.version.lstrip("v") == ref.version.lstrip("v")]
        return same[0] if same else charts[0 if ref.version == self.pins[ref.chart] else -1]

    def above(self, ref: ChartRef) -> str:
        """Return the version to upgrade to: a newer one that is here, else the same files with a version above."""
        newer = self.real[ref.chart][-1].version
        return newer if _order(newer) > _order(ref.version) else next_version(ref.version)

    def _package(self, ref: ChartRef) -> None:
        tree = self.directory / "trees" / f"{ref.chart}-{ref.version}"
        if not tree.exists():
            self._write(self.of(ref), tree, ref.version)
        words = ["package", str(tree), "--version", ref.version, "--destination", str(self.directory / CHARTS)]
        done = run_command([str(self.helm), *words], 60)
        if done.rc != 0:
            raise InputError(f"chart {ref.chart}", f"helm does not package it: {done.stderr.strip()[-300:]}")

    def _write(self, chart: RealChart, tree: Path, version: str) -> None:
        """Write a chart's tree, those that it depends on in it where they are here, without the others."""
        for name, content in chart.files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        about = {**_about(chart.name, chart.files), "version": version}
        inside = {name.split("/")[1] for name in chart.files if name.startswith("charts/")}
        kept = []
        for needed in about.get("dependencies") or ():
            name = str(needed["name"])
            if name in self.real and name not in inside:
                number = _WILD.search(str(needed.get("version") or ""))
                plain = re.sub(r"[x*]", "0", number[0]) if number else "0.0.0"
                self._write(self.real[name][0], tree / "charts" / name, plain)
            elif not any(entry == name or entry.startswith(f"{name}-") for entry in inside):
                known = self.lacking.get(chart.name, "")
                self.lacking[chart.name] = known if name in known.split(", ") else f"{known}, {name}".lstrip(", ")
                continue
            kept.append(needed)
        if kept != list(about.get("dependencies") or ()):
            about["dependencies"] = kept
            (tree / "Chart.lock").unlink(missing_ok=True)
        (tree / "Chart.yaml").write_text(json.dumps(about, default=str))

    def life(self, leaf: Leaf, limits: Limits = LIMITS) -> list[Row]:
        """Take a recipe through its life, and return a row for each of its components."""
        names = [str(entry["name"]) for entry in leaf.recipe["componentRefs"]]
        rows = {name: Row(leaf.name, name) for name in names}
        above = {ref.component: self.above(ref) for ref in self.refs(leaf.recipe) if ref.chart in self.real}
        components = self.components(leaf.recipe)
        refs = [{**entry, "version": above.get(entry["name"], entry.get("version", ""))}
                for entry in leaf.recipe["componentRefs"]]  # fmt: skip
        upgraded = self.components({**leaf.recipe, "componentRefs": refs})
        self.serve(leaf.recipe)
        self._install("installed", components, rows, limits)
        self._again(components, rows)
        self._install("upgraded", upgraded, rows, limits)
        self._install("rolled back", components, rows, limits)
        self._remove(components, rows)
        return list(rows.values())

    def _install(self, step: str, components: Sequence[Component], rows: Mapping[str, Row], limits: Limits) -> None:
        plan = make_plan(
            components,
            installed(self.client, self.cluster, components),
            allow_downgrade=True,
            allow_skipped_minors=True,
        )
        mirror = str(self.directory / CHARTS)
        for entry in Installer(self.client, self.cluster, mirror, limits).run(plan, components):
            rows[entry.component].take(step, entry.state, entry.reason, ("ready",))

    def _again(self, components: Sequence[Component], rows: Mapping[str, Row]) -> None:
        found = with_drift(self.client, self.cluster, components, installed(self.client, self.cluster, components))
        for entry in make_plan(components, found).steps:
            said = "; ".join((entry.reason, *entry.by_hand))
            rows[entry.component].take("again", entry.action.value, said, ("unchanged",))

    def _remove(self, components: Sequence[Component], rows: Mapping[str, Row]) -> None:
        found = installed(self.client, self.cluster, components)
        mirror = str(self.directory / CHARTS)
        have = holdings_of(self.client, self.cluster, components, found, mirror=mirror, remove_crds=True)
        plan = plan_removal(components, found, have, remove_crds=True)
        own = sorted({component.namespace for component in components} - {"default", "kube-system"})
        for entry in Remover(self.client, self.cluster).run(plan, own):
            # Namespaces of ours go last, each with an entry of its own.
            if entry.component in rows:
                rows[entry.component].take("removed", entry.state, entry.reason, ("removed", "absent"))


class Unanswered(LookingAlone):
    """Lets nobody ask a webhook that a pod would answer, and lets the pods of Jobs, as of hooks, end well."""

    called, pause_s = "webhooks and Jobs", 0.1

    def _look(self) -> None:
        for kind in _WEBHOOKS:
            for item in self._cluster.list_objects(kind):
                self._silence(kind, item)
        for pod in self._cluster.list_objects(PODS):
            owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
            if "Job" in owners and pod["status"].get("phase") == "Running":
                place = f"{PODS.path(pod['metadata']['name'], pod['metadata']['namespace'])}/status"
                body = {"status": {"phase": "Succeeded"}}
                self._cluster.transport.json(
                    "PATCH", place, body=body, content_type="application/merge-patch+json"
                )  # fmt: skip

    def _silence(self, kind: Kind, item: Json) -> None:
        asked = [hook["name"] for hook in item.get("webhooks") or () if "service" in hook["clientConfig"]
                 and _ASKED_NOTHING not in (hook.get("matchConditions") or ())]  # fmt: skip
        if asked:
            body = {"webhooks": [{"name": name, "matchConditions": [_ASKED_NOTHING]} for name in asked]}
            self._cluster.transport.json(
                "PATCH", kind.path(item["metadata"]["name"]), query={"fieldManager": "rehearsal"}, body=body,
                content_type="application/strategic-merge-patch+json",
            )  # fmt: skip


@contextmanager
def site_of(bench: CatalogueBench, real: Mapping[str, tuple[RealChart, ...]]) -> Iterator[RealBench]:
    """Yield a bench of real charts on a cluster that has a policy of its site; take the policy away."""
    names = ("directory", "helm", "kubeconfig", "spec", "cluster", "there")
    made = RealBench(**{name: getattr(bench, name) for name in names}, real=dict(real))
    # Not everything of the group: a ControllerRevision has no spec, and without it no DaemonSet gets pods.
    workloads = ["deployments", "daemonsets", "statefulsets"]
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": workloads}
    refused = "object.spec.template.spec.containers.all(c, !c.image.endsWith(':refused'))"
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": refused, "message": "the site refuses images of tag refused"}]}  # fmt: skip
    made.cluster.apply(_POLICIES, {"metadata": {"name": POLICY}, "spec": spec})
    bound = {"policyName": POLICY, "validationActions": ["Deny"]}
    made.cluster.apply(_BINDINGS, {"metadata": {"name": POLICY}, "spec": bound})
    watch = Unanswered(Cluster(Connection(kubeconfig=str(made.kubeconfig))))
    watch.start()
    try:
        yield made
    finally:
        watch.stopped.set()
        watch.join()
        for kind in (_BINDINGS, _POLICIES):
            made.cluster.delete(kind, POLICY)


def cover(every: Sequence[Leaf], charts: Iterable[str]) -> list[Leaf]:
    """Return few recipes that have each of the charts, as far as any recipe has it."""
    having = {leaf.name: {ref.chart for e in leaf.recipe["componentRefs"] if (ref := chart_ref(e))} for leaf in every}
    left, chosen = set(charts), []
    while best := max(every, key=lambda leaf: len(left & having[leaf.name]), default=None):
        if not left & having[best.name]:
            break
        chosen.append(best)
        left -= having[best.name]
    return chosen


def table(rows: Sequence[Row], charts: Mapping[str, str], lacking: Mapping[str, str]) -> str:
    """Return the rows as a Markdown table; `charts` names what a component is installed from."""
    lines = ["| recipe | component | chart | " + " | ".join(STEPS) + " | message |", "| --- " * (len(STEPS) + 4) + "|"]
    for row in rows:
        chart = charts.get(row.component, "stand-in")
        without = f" (without {lacking[chart]})" if chart in lacking else ""
        said = " | ".join(row.said.get(step, "-") for step in STEPS)
        told = " ".join(row.message.split())[:300].replace("|", "/")
        lines.append(f"| {row.recipe} | {row.component} | {chart}{without} | {said} | {told} |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Take recipes through their life with the charts of a directory; return 1 if a real one did not do well."""
    parser = argparse.ArgumentParser(prog="real-charts", description=main.__doc__)
    parser.add_argument("directory", type=Path, help="charts: directories or archives, found by their Chart.yaml")
    parser.add_argument("--only", default="", help="only recipes in whose name this is; else few that have every chart")
    parser.add_argument("--helm", type=Path, help="another helm, such as one of version 4")
    parser.add_argument("--ready", type=float, default=60.0, help="seconds in which a component must be ready")
    given = parser.parse_args(list(argv))
    try:
        real = found_charts(given.directory)
    except InputError as error:
        print(f"real-charts: {error}", file=sys.stderr)
        return 2
    chosen = [leaf for leaf in leaves() if given.only in leaf.name] if given.only else cover(leaves(), real)
    bad = 0
    with (
        tempfile.TemporaryDirectory(prefix="real-charts-") as directory,
        catalogue_bench(Path(directory)) as plain,
        site_of(plain, real) as made,
    ):
        bench = replace(made, helm=given.helm.resolve()) if given.helm else made
        print(f"helm {bench.client.check_version()}")
        for leaf in chosen:
            rows = bench.life(leaf, replace(LIMITS, ready_s=given.ready))
            charts = {ref.component: ref.chart for ref in bench.refs(leaf.recipe) if ref.chart in real}
            bad += sum(not row.good for row in rows if row.component in charts)
            print(table(rows, charts, bench.lacking), flush=True)
    print(f"{len(chosen)} recipes, {bad} rows of real charts not good")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
