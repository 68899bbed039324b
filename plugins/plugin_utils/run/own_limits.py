# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The limits of a run that differ from the release's: settings, and facts of hardware from which ceilings follow. A
reader of "accepted" has to see by which limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ..check.comparison.specs import comparisons_of
from ..check.kit.saved_settings import saved_entries
from ..check.kit.settings import Setting, settings_in
from ..check.kit.settings_layers import shipped
from ..check.registry import all_checks, all_settings
from ..hardware.sku import Sku, load_hardware
from ..outcome.codec import to_plain
from ..outcome.gates import GATE_IDS, STACK_GATE
from ..runtime.files import RECIPES
from ..site.model import TAKEN_AWAY, Site
from .run import Run
from .version import COLLECTION, collection_version

_RELEASE, _SHOWN = ["release"], 60
_HARDWARE = "hardware "
_CEILINGS = ("compute_hcas", "hbm_tb_per_s", "hca_rate_gbps", "intra_node_busbw_gbps", "peak_tflops", "published_busbw")
# Names of a SKU and its kind of GPU, and fields that are no limit; `settings` are listed with the settings.
_NAMES = frozenset({
    "name", "title", "aliases", "sources", "accelerator", "gpu", "gpu_product", "gpu_product_label", "settings",
    "product_pattern", "simulated",
})  # fmt: skip


def own_limits(run: Run) -> tuple[str, ...]:
    """Return everything by which gates in scope are judged and that differs from the release, with both values.

    These are settings, facts of the hardware in scope, and words of the profile.

    Raises:
        InputError: settings.json cannot be read.
    """
    saved = saved_entries(run.path)
    settings = (line for key, known in _judged_by(run).items() for line in _lines(key, known, saved.get(key, {})))
    return (*settings, *_own_hardware(run), *_own_profile(run.site))


def _own_profile(site: Site) -> Iterator[str]:
    """Yield what a file of the site removes from its profile, with who decided it: checks that need it are not run."""
    for word, reason in sorted(site.missing.items()):
        if TAKEN_AWAY in reason:
            yield f"profile {site.profile.value}.{word} none: {reason} (release: has it)"


def _own_hardware(run: Run) -> Iterator[str]:
    """Yield the facts of SKUs in scope that a file of the site sets differently from the release, or sets alone.

    The facts of another release are not those of this one: for its runs the lines are those that it wrote itself.
    """
    if run.record.versions.get(COLLECTION) != collection_version():
        yield from (line for line in run.record.own_limits if line.startswith(_HARDWARE))
        return
    shipped = _shipped_hardware()
    for name in sorted({host.sku for host in run.site.in_scope} & run.hardware.keys()):
        own, theirs = _facts(run.hardware[name]), _facts(shipped[name]) if name in shipped else {}
        # Of a SKU that the release does not have, every fact is the site's own. Listed are those that results are
        # compared with.
        for fact in sorted(own if theirs else _CEILINGS):
            yield from _facts_differing(f"{_HARDWARE}{name}.{fact}", own[fact], theirs.get(fact))


@cache
def _shipped_hardware() -> dict[str, Sku]:
    return load_hardware([RECIPES / "hardware"])


def _facts(sku: Sku) -> dict[str, Any]:
    """Return the facts from which limits and ceilings follow, without names and sources."""
    facts: dict[str, Any] = {**to_plain(sku), **{f"gpu.{k}": v for k, v in to_plain(sku.gpu_kind).items()}}
    facts["published_busbw"] = {
        " ".join(filter(None, (f"{entry.domains} domains", f"{entry.size_bytes} B", entry.algorithm))): entry.gbps
        for entry in sku.published_busbw
        if entry.kind != "average"
    }
    return {name: value for name, value in facts.items() if name.removeprefix("gpu.") not in _NAMES}


def _facts_differing(place: str, configured: Any, shipped: Any) -> Iterator[str]:
    if isinstance(configured, Mapping) or isinstance(shipped, Mapping):
        one, other = configured or {}, shipped or {}
        for name in sorted({*one, *other}):
            yield from _facts_differing(f"{place}.{name}", one.get(name), other.get(name))
    elif (configured or None) != (shipped or None):
        yield f"{place} {_short(configured)} (release: {_short(shipped)})"


def _judged_by(run: Run) -> dict[str, dict[str, Setting]]:
    """Return the settings by which gates in scope are judged, by gate or check id and name."""
    site, work = run.site, run.record.work
    unjudged = {STACK_GATE} if work is not None and work.recipe_alone else set()
    gates = {gate: gate for gate in GATE_IDS}
    gates |= {check.spec.id: check.spec.gate_at(site) for check in all_checks(site.check_dirs)}
    gates |= {entry.spec.id: gate for gate in GATE_IDS for entry in comparisons_of(gate)}
    return {
        key: {name: entry for kind in kinds for name, entry in settings_in(kind).items() if entry.use == "judge"}
        for key, kinds in all_settings(site.check_dirs).items()
        if gates.get(key) in {*site.gates} - unjudged
    }


def _lines(key: str, known: Mapping[str, Setting], saved: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    ours = {**{name: entry.default for name, entry in known.items() if entry.has_default}, **shipped(key)}
    for name in known.keys() & saved.keys() & ours.keys():
        # A value that only the release set was its limit then, whatever it is in this one.
        if saved[name]["sources"] != _RELEASE:
            yield from _differing(f"{key}.{name}", saved[name]["value"], ours[name])


def _differing(place: str, configured: Any, shipped: Any) -> Iterator[str]:
    if isinstance(configured, Mapping) and isinstance(shipped, Mapping):
        for name in sorted(configured):
            yield from _differing(f"{place}.{name}", configured[name], shipped.get(name))
    elif shipped is not None and configured != shipped:
        # Where the release has no limit, any is a stricter one; a list of what is ignored is empty there.
        yield f"{place} {_short(configured)} (release: {_short(shipped)})"


def _short(value: Any) -> str:
    if value in (None, "", (), []):
        return "none"
    text = ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
