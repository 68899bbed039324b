# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi -q -x`, DTD v11, v12 and v13. None means that the tool reports no such value (N/A)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

from .text import document, number, pci_address, unreadable, whole

# Output of `nvidia-smi -q -x` as values. None means that the tool reports no such value (N/A).


@dataclass(frozen=True, slots=True, kw_only=True)
class EccCounters:
    """Error counts of one period. `sram_uncorrectable` sums parity and SEC-DED errors where the tool counts both."""

    sram_correctable: int | None = None
    sram_uncorrectable: int | None = None
    dram_correctable: int | None = None
    dram_uncorrectable: int | None = None
    sram_threshold_exceeded: bool | None = None

    @property
    def uncorrectable(self) -> int:
        """All reported uncorrectable errors."""
        return (self.sram_uncorrectable or 0) + (self.dram_uncorrectable or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Remapped rows of memory. `histogram` counts banks by remaining spare rows: max, high, partial, low, none."""

    correctable: int
    uncorrectable: int
    pending: bool
    failure: bool
    correctable_inactive: int | None = None
    uncorrectable_inactive: int | None = None
    histogram: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedBanks:
    """Remapped banks of memory (Rubin, driver 615).

    - `pending`: a remapping waits for a reset.
    - `groups_without_spare`: number of bank groups without a spare bank.
    """

    pending: bool | None
    groups_without_spare: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFabric:
    """Registration of the GPU with its NVLink fabric. Every field is None without such a fabric.

    `conditions` are the parts of its health that are not in order, as the driver names them.
    """

    state: str | None = None
    status: str | None = None
    clique_id: str | None = None
    cluster_uuid: str | None = None
    health: str | None = None
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """One MIG device of a GPU.

    - `instance`: id of its GPU instance, if printed.
    - `sram_uncorrectable`: errors since the driver was loaded.
    """

    index: int
    memory_mib: int
    instance: str | None = None
    sram_uncorrectable: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One `<gpu>` element.

    - `trouble`: text in place of values when the driver cannot reach the GPU ("GPU is lost"), else empty.
    - `bus_id`: `dddd:bb:dd.f` in lower case.
    - `clock_events`: active reasons for lower clocks; None: the document has no list of them.
    - `temperature_margin_c`: degrees left until the GPU slows down.
    - `slowdown_us`: microseconds by reason since the driver was loaded, where the driver counts them.
    - `modes`: settings of the GPU by name, as printed.
    - `module_id`: its position on the board.
    """

    bus_id: str
    uuid: str
    product: str
    trouble: str = ""
    serial: str | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    ecc_current: str | None = None
    ecc_pending: str | None = None
    ecc_volatile: EccCounters = EccCounters()
    ecc_aggregate: EccCounters = EccCounters()
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None
    unrepairable_memory: bool | None = None
    remapped_rows: RemappedRows | None = None
    remapped_banks: RemappedBanks | None = None
    retired_pages_single_bit: int | None = None
    retired_pages_double_bit: int | None = None
    retirement_pending: bool | None = None
    mig_current: str | None = None
    mig_pending: str | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    fabric: GpuFabric = GpuFabric()
    clock_events: tuple[str, ...] | None = None
    slowdown_us: dict[str, int] = field(default_factory=dict)
    link_gen_current: int | None = None
    link_gen_max: int | None = None
    link_width_current: int | None = None
    link_width_max: int | None = None
    replay_count: int | None = None
    recovery_action: str | None = None
    reset_status: str | None = None
    vbios: str | None = None
    virtualisation: str | None = None
    persistence: str | None = None
    temperature_c: int | None = None
    temperature_margin_c: int | None = None
    memory_temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    processes: int = 0
    module_id: str | None = None
    modes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiLog:
    """The whole document.

    - `schema`: the DTD (`v13`).
    - `attached_gpus`: number of GPUs that the driver reports. `gpus` are those that it lists.
    - `warnings`: lines outside the document.
    """

    schema: str
    driver_version: str
    cuda_version: str
    attached_gpus: int
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()

    @property
    def count_agrees(self) -> bool:
        """Whether the driver's count equals the number of GPUs that it lists."""
        return self.attached_gpus == len(self.gpus)


# Parser of `nvidia-smi -q -x`, DTD v11, v12 and v13.

TOOL = "nvidia-smi -q -x"
_ABSENT = frozenset(
    ("", "n/a", "[n/a]", "not supported", "[not supported]", "requested functionality has been deprecated")
)
# Text that the driver prints in place of a value when it cannot reach the GPU.
_TROUBLE = frozenset(("gpu is lost", "gpu requires reset", "unknown error", "err!"))
# Conditions of a GPU's fabric health (NVML, nvmlGpuFabricInfo: health mask), and their values in a healthy one. A route
# recovery in progress ends by itself.
_FABRIC = "fabric/"
_FABRIC_HEALTH = {
    "bandwidth": ("full",), "route_unhealthy": ("false",), "access_timeout_recovery": ("false",),
    "incorrect_configuration": ("false", "none", "not set"),
}  # fmt: skip
_HISTOGRAM = ("max", "high", "partial", "low", "none")
# Deeper than any version nests, so that no document can exhaust the stack.
_DEPTH = 8
_CLOCKS, _CLOCKS_END = "<supported_clocks>", "</supported_clocks>"
_END = "</nvidia_smi_log>"
_SCHEMA = re.compile(r"nvsmi_device_(v\d+)\.dtd")


def parse(text: str) -> SmiLog:
    """Return the document as a value.

    Raises:
        InputError: not XML, another document, or a field that every version has is missing or nonsense.
    """
    clean = document(text)
    root = _root(clean)
    schema = _SCHEMA.search(text[:600])
    attached = _required(root, "attached_gpus")
    readers = [_Reader(element) for element in root.findall("gpu")]
    gpus = tuple(_gpu(reader) for reader in readers)
    _refuse_gaps(gpus, readers)
    return SmiLog(
        schema=schema.group(1) if schema else "",
        driver_version=_version(root),
        cuda_version=(root.findtext("cuda_version") or root.findtext("cuda_umd_version") or "").strip(),
        attached_gpus=_count(attached),
        gpus=gpus,
        warnings=_warnings(clean),
    )


def _warnings(text: str) -> tuple[str, ...]:
    """Return the lines around the document, such as `WARNING: infoROM is corrupted at gpu 0000:32:00.0`."""
    around = (text[: max(text.find("<"), 0)], text.rpartition(_END)[2] if _END in text else "")
    return tuple(line.strip()[:200] for part in around for line in part.splitlines() if line.strip())


def _root(text: str) -> ElementTree.Element:
    # Output of a node is untrusted: without this check entities could expand a small document without bound.
    if "<!ENTITY" in text:
        raise unreadable(TOOL, "<!ENTITY", "a document without entities")
    # Most of the document lists supported clocks, which no check reads.
    text = _without_clocks(text)
    start = text.find("<")
    end = text.find(_END)
    # Warnings about a GPU ("infoROM is corrupted") may come before and after it.
    text = text[max(start, 0) : end + len(_END) if end >= 0 else len(text)]
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise unreadable(TOOL, f"{text[:60]} ({error})", "an XML document") from None
    if root.tag != "nvidia_smi_log":
        raise unreadable(TOOL, f"<{root.tag}>", "<nvidia_smi_log>")
    return root


def _refuse_gaps(gpus: tuple[Gpu, ...], readers: list[_Reader]) -> None:
    """Refuse a document in which one GPU lacks an element that another one of the same product has.

    For both the driver prints the same elements, with N/A for a missing value. Only for a GPU that it cannot reach it
    prints fewer. A lost line must not read as "nothing is wrong".

    Raises:
        InputError: the first element that is missing.
    """
    sound = [(gpu, reader) for gpu, reader in zip(gpus, readers, strict=True) if not gpu.trouble]
    for product in {gpu.product for gpu, _reader in sound}:
        same = [(gpu, reader) for gpu, reader in sound if gpu.product == product]
        everywhere = set().union(*(reader.read for _gpu, reader in same))
        for gpu, reader in same:
            missing = [path for path in sorted(everywhere - reader.read) if not reader.mentions(path)]
            if missing:
                raise unreadable(TOOL, f"no <{missing[0]}> of {gpu.bus_id}", "what it prints of the other GPUs")


def _without_clocks(text: str) -> str:
    # Not a regular expression: in a cut document it would search from each begin to the end of the text.
    kept, at = [], 0
    while (begin := text.find(_CLOCKS, at)) >= 0 and (end := text.find(_CLOCKS_END, begin)) >= 0:
        kept.append(text[at:begin])
        if text.find(_CLOCKS, begin + len(_CLOCKS), end) >= 0:
            raise unreadable(TOOL, f"{_CLOCKS} twice", f"{_CLOCKS_END} between them")
        at = end + len(_CLOCKS_END)
    return "".join([*kept, text[at:]])


def _required(element: ElementTree.Element, path: str) -> str:
    text = (element.findtext(path) or "").strip()
    if not text:
        raise unreadable(TOOL, f"no <{path}>", f"<{path}> in <{element.tag}>")
    return text


def _count(text: str) -> int:
    value = whole(text, TOOL, "attached_gpus")
    if value < 0:
        raise unreadable(TOOL, text, "a count in attached_gpus")
    return value


def _version(root: ElementTree.Element) -> str:
    # Newer drivers print the kernel module's version beside it, and announce that driver_version will be removed.
    text = (root.findtext("kmd_version") or "").strip() if root.find("driver_version") is None else ""
    text = text or _required(root, "driver_version")
    if not re.fullmatch(r"\d+(\.\d+)+", text):
        raise unreadable(TOOL, text, "a version in driver_version")
    return text


def _walk(element: ElementTree.Element, path: str, texts: dict[str, str]) -> None:
    for child in element:
        name = f"{path}{child.tag}"
        texts.setdefault(name, (child.text or "").strip())
        if len(child) and name.count("/") < _DEPTH:
            _walk(child, f"{name}/", texts)


class _Reader:
    """Reads the fields of one GPU and keeps the first trouble text instead of failing on it."""

    def __init__(self, element: ElementTree.Element) -> None:
        self.element = element
        self.trouble = ""
        # Requested paths that exist, with or without a value.
        self.read: set[str] = set()
        # One walk instead of a search per field: a fleet has thousands of these elements.
        self._texts: dict[str, str] = {}
        _walk(element, "", self._texts)

    def text(self, path: str) -> str | None:
        """Return the text; None if there is no such element, or N/A."""
        raw = self._texts.get(path, "")
        if path in self._texts:
            self.read.add(path)
        # The state of the fabric comes from the fabric manager: an unknown error there does not mean a lost GPU.
        if raw.lower().strip("[]") in _TROUBLE and not path.startswith(_FABRIC):
            self.trouble = self.trouble or raw
            return None
        return None if raw.lower() in _ABSENT else raw

    def mentions(self, path: str) -> bool:
        """Return whether the element exists, or a section around it has text (N/A) in place of its elements."""
        parts = path.split("/")
        return path in self._texts or any(self._texts.get("/".join(parts[:n])) for n in range(1, len(parts)))

    def whole(self, path: str) -> int | None:
        text = self.text(path)
        return None if text is None else whole(text, TOOL, path)

    def number(self, path: str) -> float | None:
        text = self.text(path)
        return None if text is None else number(text, TOOL, path)

    def flag(self, path: str) -> bool | None:
        text = self.text(path)
        if text is None:
            return None
        if text.lower() not in ("yes", "no"):
            raise unreadable(TOOL, f"{path}: {text}", "Yes or No")
        return text.lower() == "yes"


def _gpu(reader: _Reader) -> Gpu:
    element = reader.element
    product, uuid = _required(element, "product_name"), _required(element, "uuid")
    repair = "ecc_errors"
    fields = {
        "serial": reader.text("serial"),
        "memory_total_mib": reader.whole("fb_memory_usage/total"),
        "memory_used_mib": reader.whole("fb_memory_usage/used"),
        "ecc_current": reader.text("ecc_mode/current_ecc"),
        "ecc_pending": reader.text("ecc_mode/pending_ecc"),
        "ecc_volatile": _ecc(reader, "ecc_errors/volatile"),
        "ecc_aggregate": _ecc(reader, "ecc_errors/aggregate"),
        "channel_repair_pending": reader.flag(f"{repair}/channel_repair_pending"),
        "tpc_repair_pending": reader.flag(f"{repair}/tpc_repair_pending"),
        "unrepairable_memory": reader.flag(f"{repair}/unrepairable_memory"),
        "remapped_rows": _remapped(reader),
        "remapped_banks": _banks(reader),
        "retired_pages_single_bit": reader.whole("retired_pages/multiple_single_bit_retirement/retired_count"),
        "retired_pages_double_bit": reader.whole("retired_pages/double_bit_retirement/retired_count"),
        "retirement_pending": _either(
            reader.flag("retired_pages/pending_blacklist"), reader.flag("retired_pages/pending_retirement")
        ),
        "mig_current": reader.text("mig_mode/current_mig"),
        "mig_pending": reader.text("mig_mode/pending_mig"),
        "mig_devices": _mig_devices(element),
        "fabric": _fabric(reader),
        "clock_events": _clock_events(reader),
        "slowdown_us": _slowdowns(reader),
        "modes": _modes(element),
        **_link(reader),
        **_state(reader),
    }
    if fields["memory_total_mib"] is None and not reader.trouble:
        raise unreadable(TOOL, f"no memory size for {element.get('id', '')}", "fb_memory_usage/total")
    return Gpu(bus_id=_bus_id(element), product=product, uuid=uuid, trouble=reader.trouble, **fields)  # type: ignore[arg-type]


def _either(one: bool | None, other: bool | None) -> bool | None:
    return other if one is None else one or bool(other)


def _bus_id(element: ElementTree.Element) -> str:
    return pci_address(element.get("id") or _required(element, "pci/pci_bus_id"))


# Settings from an administrator or a module parameter, by path in the document.
_MODES = {
    "compute mode": "compute_mode",
    "GSP firmware": "gsp_firmware_version",
    "addressing mode": "addressing_mode",
    "C2C mode": "c2c_mode",
    "DRAM encryption": "dram_encryption_mode/current_dram_encryption",
    "application clock": "applications_clocks/graphics_clock",
    "application clock of memory": "applications_clocks/mem_clock",
    "clocks limited by a setting": "clocks_event_reasons/clocks_event_reason_applications_clocks_setting",
}


def _modes(element: ElementTree.Element) -> dict[str, str]:
    found = {name: (element.findtext(path) or "").strip() for name, path in _MODES.items()}
    return {name: text for name, text in found.items() if text}


def _link(reader: _Reader) -> dict[str, int | None]:
    base = "pci/pci_gpu_link_info"
    return {
        "link_gen_current": reader.whole(f"{base}/pcie_gen/current_link_gen"),
        "link_gen_max": reader.whole(f"{base}/pcie_gen/max_link_gen"),
        "link_width_current": reader.whole(f"{base}/link_widths/current_link_width"),
        "link_width_max": reader.whole(f"{base}/link_widths/max_link_width"),
        "replay_count": reader.whole("pci/replay_counter"),
    }


def _state(reader: _Reader) -> dict[str, str | int | float | None]:
    power = _power(reader, "instant_power_draw", "power_draw")
    return {
        "power_limit_w": _power(reader, "enforced_power_limit", "current_power_limit", "power_limit"),
        "power_limit_default_w": _power(reader, "default_power_limit"),
        "persistence": reader.text("persistence_mode"),
        "temperature_margin_c": reader.whole("temperature/gpu_temp_tlimit"),
        "memory_temperature_c": reader.whole("temperature/memory_temp"),
        "recovery_action": reader.text("gpu_recovery_action"),
        "reset_status": reader.text("gpu_reset_status/reset_required"),
        "module_id": reader.text("platformInfo/module_id"),
        "vbios": reader.text("vbios_version"),
        "virtualisation": reader.text("gpu_virtualization_mode/virtualization_mode"),
        "temperature_c": reader.whole("temperature/gpu_temp"),
        "power_w": power,
        "processes": len(reader.element.findall("processes/process_info")),
    }


def _power(reader: _Reader, *names: str) -> float | None:
    """Return the first of these power readings that exists, in newer or older documents."""
    paths = (f"{base}/{name}" for base in ("gpu_power_readings", "power_readings") for name in names)
    return next((value for path in paths if (value := reader.number(path)) is not None), None)


def _ecc(reader: _Reader, base: str) -> EccCounters:
    parts = [
        reader.whole(f"{base}/{name}")
        for name in ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded")
    ]
    known = [part for part in parts if part is not None]
    return EccCounters(
        sram_correctable=reader.whole(f"{base}/sram_correctable"),
        sram_uncorrectable=sum(known) if known else None,
        dram_correctable=reader.whole(f"{base}/dram_correctable"),
        dram_uncorrectable=reader.whole(f"{base}/dram_uncorrectable"),
        sram_threshold_exceeded=reader.flag(f"{base}/sram_threshold_exceeded"),
    )


def _remapped(reader: _Reader) -> RemappedRows | None:
    base = "remapped_rows"
    element = reader.element.find(base)
    if element is None or len(element) == 0:
        reader.text(base)
        return None
    pending, failure = reader.flag(f"{base}/remapped_row_pending"), reader.flag(f"{base}/remapped_row_failure")
    counts = [reader.whole(f"{base}/remapped_row_{name}") for name in ("corr", "unc")]
    if pending is None or failure is None or counts[0] is None or counts[1] is None:
        if reader.trouble or all(value is None for value in (pending, failure, *counts)):
            return None
        raise unreadable(TOOL, "half of <remapped_rows>", "corr, unc, pending and failure")
    bins = {name: reader.whole(f"{base}/row_remapper_histogram/row_remapper_histogram_{name}") for name in _HISTOGRAM}
    return RemappedRows(
        correctable=counts[0],
        uncorrectable=counts[1],
        pending=pending,
        failure=failure,
        correctable_inactive=reader.whole(f"{base}/remapped_row_corr_inactive"),
        uncorrectable_inactive=reader.whole(f"{base}/remapped_row_unc_inactive"),
        histogram={name: value for name, value in bins.items() if value is not None},
    )


def _banks(reader: _Reader) -> RemappedBanks | None:
    """Return the remapped banks that Rubin has beside rows (NVIDIA/k8s-test-infra, qx-vrnvl72.xml of driver 615.23)."""
    pending = reader.flag("remapped_banks/bank_remapper_pending")
    without = reader.whole("remapped_banks/bank_remapper_histogram/bank_remapper_histogram_none")
    return None if pending is None and without is None else RemappedBanks(pending=pending, groups_without_spare=without)


def _fabric(reader: _Reader) -> GpuFabric:
    return GpuFabric(
        state=reader.text("fabric/state"),
        status=reader.text("fabric/status"),
        clique_id=reader.text("fabric/cliqueId"),
        cluster_uuid=reader.text("fabric/clusterUuid"),
        health=reader.text("fabric/health/summary"),
        conditions=tuple(
            f"{name} {reported}"
            for name, good in _FABRIC_HEALTH.items()
            if (reported := reader.text(f"fabric/health/{name}")) is not None and reported.lower() not in good
        ),
    )


def _mig_devices(element: ElementTree.Element) -> tuple[MigDevice, ...]:
    return tuple(
        MigDevice(
            index=whole(_required(device, "index"), TOOL, "mig_device/index"),
            memory_mib=whole(_required(device, "fb_memory_usage/total"), TOOL, "mig_device/fb_memory_usage/total"),
            instance=(device.findtext("gpu_instance_id") or "").strip() or None,
            sram_uncorrectable=_Reader(device).whole("ecc_error_count/volatile_count/sram_uncorrectable"),
        )
        for device in element.findall("mig_devices/mig_device")
    )


def _slowdowns(reader: _Reader) -> dict[str, int]:
    base = "clocks_event_reasons_counters"
    texts = {
        counter.tag.removeprefix(f"{base}_"): (counter.text or "").strip()
        for counter in reader.element.findall(f"{base}/*")
    }
    reader.read |= {f"{base}/{base}_{name}" for name in texts}
    return {name: whole(text, TOOL, name) for name, text in texts.items() if text[:1].isdecimal()}


_SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


def _clock_events(reader: _Reader) -> tuple[str, ...] | None:
    """Return the names of the active reasons. Before driver 535.54 they were called throttle reasons.

    None if one of the slowdowns is not listed: then it is unknown whether it is active.
    """
    listed: dict[str, str] = {}
    for word in ("event", "throttle"):
        for reason in reader.element.findall(f"clocks_{word}_reasons/*"):
            reader.read.add(f"clocks_{word}_reasons/{reason.tag}")
            listed[reason.tag.removeprefix(f"clocks_{word}_reason_")] = (reason.text or "").strip()
    if any(listed.get(name) not in ("Active", "Not Active") for name in _SLOWDOWNS):
        return None
    return tuple(name for name, word in listed.items() if word == "Active")
