# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packs what a vendor needs when a part goes back: a page, the output of every tool of its node, results, digests.

The page names the part, its fault, since when, and why the part is at fault and not its surroundings.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ...collect.host_evidence import DRIVERS, HOSTS, HostEvidence, ToolRun, evidence_file, read_evidence
from ...outcome.codec import dumps, to_plain
from ...outcome.errors import BringupError, InputError, NotFoundError
from ...outcome.gates import GATE_IDS, PHASE_GATES
from ...outcome.model import Outcome, Status
from ...probe import dmidecode, ibstat, mlxlink, nvidia_smi_xml
from ...report.facts import ctrf_path, read_phase_outcomes
from ...report.markdown import plain
from ...report.words import number
from ...run.run import Run
from ...runtime.clock import moment_of
from ...runtime.files import PRIVATE_FILE, SITE, write_atomic_bytes
from ...runtime.redaction import redact
from ...runtime.strict import nearest
from ...store.history import open_store, said_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RmaPart:
    """The part to send back.

    `facts` are its identity as its tools print it (serial number, UUID, firmware, address), with readable names.
    `seen_in` is the run that last listed it, empty for the run of the pack.
    """

    name: str
    node: str
    kind: str
    rack: str = ""
    facts: Mapping[str, str]
    seen_in: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """One earlier result about the part or its node: when (UTC), of which run and check, and its text."""

    when: str
    run_id: str
    check: str
    subject: str
    status: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFacts:
    """Everything that the page shows.

    `against` are the results that accuse the part. `cleared` are sentences about what was checked and is not to blame.
    `files` has by name the SHA-256 of the files in the archive. `missing` is what a vendor will request and is not
    there.
    """

    case: str
    contact: str
    run_id: str
    started: str
    rehearsal: bool
    part: RmaPart
    against: tuple[Outcome, ...]
    cleared: tuple[str, ...]
    past: tuple[PastResult, ...]
    files: Mapping[str, str]
    missing: tuple[str, ...]


def render_page(facts: PackFacts) -> str:
    """Return the page in Markdown."""
    part = facts.part
    lines = [f"# Return of {plain(part.kind)} {plain(part.name)}", ""]
    if facts.rehearsal:
        lines += ["**REHEARSAL: the hardware is simulated. There is nothing to return.**", ""]
    head = {"Case": facts.case, "Contact": facts.contact, "Node": part.node, "Rack": part.rack}
    head |= {"Observed": f"{facts.started} (run {facts.run_id})", **part.facts}
    if part.seen_in:
        head["Identity from"] = f"run {part.seen_in}, the last that saw the part; it is not listed any more"
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {plain(name)} | {plain(value)} |" for name, value in head.items() if value]
    lines += ["", "## What is wrong", ""]
    for outcome in facts.against:
        lines += [f"- **{plain(outcome.cause)}** ({plain(outcome.check)}): {plain(outcome.summary, 600)}"]
        lines += [f"  - expected {plain(_expected(outcome))}"] if outcome.expected else []
        lines += [f"  - seen by {plain(source)}" for source in dict.fromkeys(e.source for e in outcome.evidence)]
    lines += _section("What was looked at and is not to blame", facts.cleared)
    lines += _section("Still to be added", facts.missing)
    lines += ["", "## History", ""]
    lines += [
        f"- {plain(past.when)}: {plain(past.check)} on {plain(past.subject)}: {past.status}: {plain(past.text)}"
        for past in facts.past
    ] or ["- no earlier failure of it is on record"]
    lines += ["", "## Files", "", "| file | SHA-256 |", "| --- | --- |"]
    lines += [f"| {plain(name)} | `{digest}` |" for name, digest in facts.files.items()]
    return "\n".join(lines) + "\n"


def _section(title: str, sentences: tuple[str, ...]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {plain(text, 600)}" for text in sentences)] if sentences else []


# Markdown would escape operator signs, and a page is read as plain text, too.
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def _expected(outcome: Outcome) -> str:
    return "; ".join(
        f"{entry.name} {_SIGNS.get(entry.relation, entry.relation)} {number(entry.value)} {entry.unit}".rstrip()
        for entry in outcome.expected[:4]
    )


# The identity of a part from the output of its tools: serial number, address, firmware.

T = TypeVar("T")
GPU, ADAPTER, NODE = "GPU", "network adapter", "node"
_SYSTEM = 1


def kind_of(part: str) -> str:
    """Return the kind of a part by its name.

    `gpu3` or an address is a GPU, an empty name the node, anything else an adapter.
    """
    if not part:
        return NODE
    is_gpu = part.removeprefix("gpu").isdecimal() if part.startswith("gpu") else part.count(":") == 2
    return GPU if is_gpu else ADAPTER


def identity(part: str, evidence: HostEvidence) -> dict[str, str]:
    """Return the identity of a part by name of each fact; empty if the tools of the host do not list it."""
    system = _system(evidence)
    if kind_of(part) == NODE:
        return system
    own = _gpu(part, evidence) if kind_of(part) == GPU else _adapter(part, evidence)
    return {**own, **{f"Node {name[0].lower()}{name[1:]}": value for name, value in system.items()}} if own else {}


def listed_gpus(evidence: HostEvidence) -> int:
    """Return how many GPUs the driver of the host lists; 0 if it does not respond."""
    log = _read(evidence, "nvidia_smi_xml", nvidia_smi_xml.parse)
    return len(log.gpus) if log else 0


def _read(evidence: HostEvidence, tool: str, parse: Callable[[str], T]) -> T | None:
    """Return the parsed output of a tool; None if it did not run or has another format."""
    run = evidence.tools.get(tool)
    if run is None or run.rc != 0:
        return None
    try:
        return parse(run.stdout)
    except InputError:
        return None


def _system(evidence: HostEvidence) -> dict[str, str]:
    table = _read(evidence, "dmidecode", dmidecode.parse)
    records = table.of_kind(_SYSTEM) if table else ()
    names = {"Manufacturer": "Manufacturer", "Product Name": "Product", "Serial Number": "Serial number"}
    return {shown: records[0].value(name) for name, shown in names.items() if records and records[0].value(name)}


def _gpu(part: str, evidence: HostEvidence) -> dict[str, str]:
    log = _read(evidence, "nvidia_smi_xml", nvidia_smi_xml.parse)
    if log is None:
        return {}
    number = part.removeprefix("gpu")
    found = [
        gpu for index, gpu in enumerate(log.gpus) if gpu.bus_id == part or (number.isdecimal() and index == int(number))
    ]
    if len(found) != 1:
        return {}
    gpu = found[0]
    facts = {
        "Product": gpu.product, "Serial number": gpu.serial, "UUID": gpu.uuid, "PCI address": gpu.bus_id,
        "VBIOS": gpu.vbios, "Driver": log.driver_version,
    }  # fmt: skip
    return _known(facts)


def _adapter(part: str, evidence: HostEvidence) -> dict[str, str]:
    adapters = _read(evidence, "ibstat", ibstat.parse) or ()
    found = [hca for hca in adapters if hca.name == part]
    if len(found) != 1:
        return {}
    facts: dict[str, str | None] = {
        "Type": found[0].kind,
        "Firmware": found[0].firmware,
        "Node GUID": found[0].node_guid,
    }
    links = [link for link in _read(evidence, "mlxlink", mlxlink.parse) or () if link.device == part]
    if len(links) == 1:
        link = links[0]
        facts |= {"Cable or module": " ".join(filter(None, (link.module_vendor, link.module_part))) or None}
        facts |= {"Cable or module serial number": link.module_serial}
    return _known(facts)


def _known(facts: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}


PAGE = "README.md"
_WAVES = "waves"
_MOST_FILE = 256 * 1024 * 1024
_BUG_REPORT = "nvidia-bug-report"
_DIAGNOSTICS = ("dcgmi_diag", "mlxlink", "nvidia_smi_xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class RmaRequest:
    """What to pack.

    `subject` is the name in results (`gpu03/gpu5`, `gpu03/mlx5_2`, `gpu03`). There are the number of the case, the
    contact, and further `files` to pack. `store` is the history file, None for none.
    """

    subject: str
    case: str = ""
    contact: str = ""
    files: tuple[Path, ...] = ()
    store: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RmaPack:
    """A pack that is ready to be written: its page, and every file by name."""

    page: str
    files: Mapping[str, bytes]
    against: tuple[Outcome, ...]
    missing: tuple[str, ...]
    moment_s: int

    def archive(self) -> bytes:
        """Return the archive; the same run gives the same bytes."""
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", mtime=self.moment_s, filename="") as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, data in {PAGE: self.page.encode(), **self.files}.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(data), self.moment_s, PRIVATE_FILE
                tar.addfile(entry, io.BytesIO(data))
        return packed.getvalue()


def make_pack(run: Run, requested: RmaRequest) -> RmaPack:
    """Return the pack of a part.

    Raises:
        NotFoundError: the run has no such host.
        InputError: no result of the run accuses the part, or a file to pack cannot be searched for secrets.
    """
    node, _slash, part = requested.subject.partition("/")
    host = next((host for host in run.site.hosts if host.name == node), None)
    if host is None:
        names = sorted(host.name for host in run.site.hosts)
        example = f"{(nearest(node, names) or names)[0]}/{part or 'gpu3'}"
        hint = f"name one of its hosts ({', '.join(names[:8])}), or a part of one: {example}"
        raise NotFoundError(f"host {node!r}", f"is not in run {run.record.run_id}.", hint)
    run, outcomes, against = _accusing(run, requested.subject)
    evidence = _evidence(run, node)
    facts, seen_in = _identity(run, part, evidence, run.hardware[host.sku].gpus)
    files = {**_tools(evidence), **_further(run, node), **_own_files(requested.files)}
    files["results.json"] = dumps(to_plain(against)).encode()
    missing = _missing(part, facts, evidence, files)
    page = PackFacts(
        case=redact(requested.case), contact=redact(requested.contact), run_id=run.record.run_id,
        started=run.record.started,
        rehearsal=run.record.rehearsal, against=against, cleared=tuple(_cleared(outcomes, against, node)),
        part=RmaPart(name=requested.subject, node=node, kind=kind_of(part), rack=host.rack, facts=facts,
        seen_in=seen_in),
        past=_past(run, node, requested.store), missing=missing,
        files={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    )  # fmt: skip
    moment = moment_of(run.record.started)
    return RmaPack(
        page=render_page(page), files=files, against=against, missing=missing, moment_s=int(moment.timestamp())
    )


def write_pack(path: Path, archive: bytes) -> None:
    """Write the archive, readable by its owner alone, whole or not at all.

    Raises:
        UnavailableError: it cannot be written.
    """
    write_atomic_bytes(path, archive, PRIVATE_FILE)


def _accusing(run: Run, subject: str) -> tuple[Run, list[Outcome], tuple[Outcome, ...]]:
    """Return the run that accuses the part (this one or the newest proof of a wave), its results, and those against.

    Raises:
        InputError: none does.
    """
    near: set[str] = set()
    node = subject.partition("/")[0]
    for found in (run, *_proofs(run)):
        outcomes = _outcomes(found)
        if against := tuple(outcome for outcome in outcomes if _accuses(outcome, subject)):
            return found, outcomes, against
        near |= {s.name for o in outcomes if o.status is Status.FAILED for s in o.subjects if s.node == node}
    text = f"no check failed about it in run {run.record.run_id}, so a vendor would send it back."
    hint = f"name a run in which one did: -e gpufleet_run={run.path.parent}/<run>"
    if near:
        hint = f"name what failed there: {', '.join(sorted(near))} (-e gpufleet_rma={min(near, key=_whole_last)})"
    raise InputError(subject, text, hint)


def _whole_last(name: str) -> tuple[bool, str]:
    """Sort key: names of parts before that of their node, which is not sent back for one of them."""
    return "/" not in name, name


def _proofs(run: Run) -> Iterator[Run]:
    """Yield the runs that proved the waves of a roll, newest first."""
    for path in sorted((run.path / _WAVES).glob("*"), reverse=True):
        if (path / SITE).is_file():
            yield Run(path)


def _outcomes(run: Run) -> list[Outcome]:
    """Return the results of the gates and phases that the run went through; one that was not run has no file."""
    gates = [gate for gate in GATE_IDS if ctrf_path(run.path, gate).is_file()]
    found = [outcome for gate in gates for outcome in run.own_outcomes(gate)]
    for phase in (verdict.gate for verdict in run.record.phases):
        if phase not in gates and ctrf_path(run.path, phase).is_file():
            # A cycle has no gates: its results have its own name.
            found += read_phase_outcomes(run.path, phase, (*GATE_IDS, *PHASE_GATES.get(phase, (phase,))))
    return found


def _accuses(outcome: Outcome, subject: str) -> bool:
    """Whether a result is a failure of this part; for a node also a failure of one of its parts."""
    if outcome.status is not Status.FAILED:
        return False
    return any(entry.name == subject or ("/" not in subject and entry.node == subject) for entry in outcome.subjects)


def _evidence(run: Run, node: str) -> HostEvidence:
    """Return the output of the tools of a host.

    It is from the host, from pods of the operator that owns the driver, and from around loads where these had more
    tools. It is empty where the run did not read the host.
    """
    tools: dict[str, ToolRun] = {}
    kept = [run.path / evidence_file(node, kind) for kind in (HOSTS, DRIVERS)]
    found = [read_evidence(path) for path in kept if path.is_file()]
    for one in (*_around_loads(run, node), *found):
        tools |= one.tools
    return replace(found[0] if found else HostEvidence(host=node, reached=bool(tools)), tools=tools)


def _around_loads(run: Run, node: str) -> list[HostEvidence]:
    """Return the readings of a host around loads, those after a load last: they show the fault."""
    paths = sorted((run.path / "evidence" / "load").glob(f"*/*/{node}.json"), key=lambda path: path.parent.name)
    found = []
    for path in reversed(paths):
        # A reading that cannot be parsed is packed as it is, and adds no facts.
        with suppress(BringupError):
            found.append(read_evidence(path))
    return found


def _identity(run: Run, part: str, evidence: HostEvidence, gpus: int) -> tuple[dict[str, str], str]:
    """Return the identity of the part, and the earlier run that knew it where this one does not list it any more.

    A missing GPU shifts the numbers of those after it, so a number counts only where all are listed.
    """
    counted = kind_of(part) != GPU or ":" in part or listed_gpus(evidence) == gpus
    found = identity(part, evidence) if counted else {}
    if found or kind_of(part) == NODE:
        return found, ""
    for before, observed in _earlier(run, evidence.host):
        if kind_of(part) == GPU and listed_gpus(observed) != gpus:
            continue
        if found := identity(part, observed):
            now = identity(found["PCI address"], evidence) if kind_of(part) == GPU else {}
            return (now, "") if now else (found, before.record.run_id)
    return {}, ""


def _earlier(run: Run, host: str) -> Iterator[tuple[Run, HostEvidence]]:
    """Yield the earlier runs of the same site, newest first, with their readings of the host.

    Before them come the readings of this run before a load.
    """
    yield from ((run, reading) for reading in _around_loads(run, host))
    own = run.path.resolve()
    # The proof of a wave is a run below that of its roll.
    own = own.parents[1] if own.parent.name == _WAVES else own
    for path in sorted((path for path in own.parent.iterdir() if path.name < own.name), reverse=True):
        if path.is_symlink() or not (path / SITE).is_file():
            continue
        before = Run(path)
        try:
            if before.site.name == run.site.name and before.record.rehearsal == run.record.rehearsal:
                yield before, _evidence(before, host)
        except BringupError:
            # An old directory that cannot be read must not prevent the pack.
            continue


def _tools(evidence: HostEvidence) -> dict[str, bytes]:
    """Return by file the output of each tool of the node, with its command."""
    return {f"tools/{name}.txt": _printed(tool).encode() for name, tool in sorted(evidence.tools.items())}


def _printed(tool: ToolRun) -> str:
    how = "ran into its time limit" if tool.timed_out else "is not installed" if tool.missing else f"ended {tool.rc}"
    cut = ", output cut" if tool.truncated else ""
    errors = f"\n--- stderr\n{tool.stderr}" if tool.stderr else ""
    return redact(f"$ {' '.join(tool.argv)}\n({how}{cut}, {tool.duration_s:.1f} s)\n{tool.stdout}{errors}")


def _further(run: Run, node: str) -> dict[str, bytes]:
    """Return what else the run has about the node: its BMC with the event log, its counters after a load."""
    places = {f"evidence/facility/bmc-{node}.json": "bmc.json"}
    for path in sorted((run.path / "evidence" / "load").glob(f"*/*/{node}.json")):
        places[path.relative_to(run.path).as_posix()] = f"load-{path.parent.parent.name}-{path.parent.name}.json"
    kept = {name: run.path / place for place, name in places.items()}
    return {name: redact(path.read_text(encoding="utf-8")).encode() for name, path in kept.items() if path.is_file()}


def _own_files(paths: Sequence[Path]) -> dict[str, bytes]:
    """Return the requested files, without secrets.

    Raises:
        NotFoundError: one is not there.
        InputError: one cannot be searched for secrets.
    """
    found: dict[str, bytes] = {}
    for path in paths:
        name = f"added/{path.name}"
        if name in found:
            raise InputError(str(path), "has the name of another file of the pack.", "rename one of them")
        found[name] = _looked_through(path)
    return found


def _looked_through(path: Path) -> bytes:
    hint = "pack text, or text that gzip compressed; send anything else beside the pack"
    try:
        data = path.read_bytes()
        zipped = data.startswith(b"\x1f\x8b")
        plain = _unzipped(data) if zipped else data
        text = redact(plain.decode("utf-8", "strict" if not zipped else "replace"))
    except FileNotFoundError:
        raise NotFoundError(str(path), "is not there.", f"ls -l '{path.parent}'") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}.", hint) from None
    except (UnicodeDecodeError, EOFError, zlib.error, ValueError):
        raise InputError(str(path), "is no text that can be looked through for secrets.", hint) from None
    return gzip.compress(text.encode(), mtime=0) if zipped else text.encode()


def _unzipped(data: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        plain = stream.read(_MOST_FILE + 1)
    if len(plain) > _MOST_FILE:
        raise ValueError("too long")
    return plain


def _missing(part: str, facts: Mapping[str, str], evidence: HostEvidence, files: Iterable[str]) -> tuple[str, ...]:
    found = []
    if "Serial number" not in facts and kind_of(part) != NODE:
        found.append("the serial number of the part: no run saw it; read it from the label")
    for name in _DIAGNOSTICS:
        tool = evidence.tools.get(name)
        if tool is None or tool.missing:
            found.append(f"the output of {name}: it was not asked in this run")
    if not any(_BUG_REPORT in name for name in files):
        found.append("the output of nvidia-bug-report.sh from right after the fault")
    return tuple(found)


def _cleared(outcomes: Sequence[Outcome], against: Sequence[Outcome], node: str) -> Iterable[str]:
    """Yield where the same checks passed: what other nodes share with this one is not to blame."""
    for check in dict.fromkeys(outcome.check for outcome in against):
        passed = {s.node for o in outcomes if o.check == check and o.status is Status.PASSED for s in o.subjects}
        others = sorted(passed - {node, ""})
        if others:
            yield f"{check} passed on {len(others)} other nodes with the same checks and settings"
    mine = [o for o in outcomes if o.status is Status.PASSED and any(s.node == node for s in o.subjects)]
    uniform = sorted({outcome.check for outcome in mine if outcome.check.endswith("-uniform")})
    if uniform:
        yield f"the node is set up as the others of its kind: {', '.join(uniform)} passed for it"


def _past(run: Run, node: str, store: Path | None) -> tuple[PastResult, ...]:
    if store is None or not store.is_file():
        return ()
    rows = said_of(open_store(store), run.site.name, node, rehearsal=run.record.rehearsal)
    return tuple(
        PastResult(
            when=row["when"],
            run_id=row["run_id"],
            check=row["check_id"],
            subject=row["subject"],
            status=row["status"],
            text=f"{row['cause']}: {row['summary']}",
        )
        for row in rows
        if row["run_id"] != run.record.run_id
    )
