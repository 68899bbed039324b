# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts about kernel, driver, services and files of a host. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.host_packages import run

LEDGER = "/etc/gpufleet/converged.json"
_FAMILIES = {"debian": "debian", "ubuntu": "debian", "rhel": "redhat", "fedora": "redhat", "centos": "redhat"}
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
# Modules that a plan uses. All others are left out.
_MODULES = re.compile(r"(nvidia\w*|gdrdrv|nouveau)$")
# Directories of systemd-sysctl: of equal names the first wins. sysctl --system reads /etc/sysctl.conf last.
_SYSCTL = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
_OURS = "99-zz-gpufleet.conf"


def system(root: str) -> dict[str, str]:
    """Return family, distribution, major release, architecture, kernel and boot id. /proc is read below `root`."""
    release = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', _read("/etc/os-release"), re.MULTILINE))
    likes = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    machine = os.uname()
    number = release.get("VERSION_ID", "")
    return {
        "family": next((_FAMILIES[like] for like in likes if like in _FAMILIES), "other"),
        # The names that Ansible uses.
        "distribution": {"debian": "Debian", "ubuntu": "Ubuntu"}.get(likes[0], release.get("NAME", likes[0])),
        "release": number if likes[0] == "ubuntu" else number.split(".", maxsplit=1)[0],
        "architecture": machine.machine,
        "kernel": machine.release,
        "boot": _read(root + "/proc/sys/kernel/random/boot_id").strip(),
    }


def driver(root: str, kernel: str) -> dict[str, Any]:
    """Return what of the driver is loaded, installed and built. /proc is read below `root`."""
    loaded = re.search(
        r"(Open )?(?:\S+ )?Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", _read(root + "/proc/driver/nvidia/version")
    )
    libraries = [name for place in _LIBRARIES for name in glob.glob(place + "/libnvidia-ml.so.[0-9]*.[0-9]*")]
    lines = run(["dkms", "status", "-k", kernel])[1].splitlines()
    return {
        "loaded_driver": loaded.group(2) if loaded else "",
        "loaded_modules": ("open" if loaded.group(1) else "proprietary") if loaded else "",
        "library_driver": os.path.basename(libraries[0]).partition(".so.")[2] if libraries else "",
        "modules": _modules(_read(root + "/proc/modules")),
        "kernel_headers": _has_headers(kernel),
        "dkms": [line.strip() for line in lines if line.startswith("nvidia")],
        "command_line": _read(root + "/proc/cmdline").strip(),
        "boot_arguments": _boot_arguments(),
    }


def _has_headers(kernel: str) -> bool:
    """Tell whether DKMS can build for a kernel. Both are links, dangling if the package of the headers is missing.

    dell/dkms: "Your kernel headers for kernel ... cannot be found at /lib/modules/.../build or .../source".
    """
    return any(os.path.isdir(f"/lib/modules/{kernel}/{name}") for name in ("build", "source"))


def device_users(root: str) -> list[dict[str, str]]:
    """Return each process with an open device of the driver, and the unit or pod that it belongs to.

    `unit` is the last part of its cgroup (cgroups(7), the line of version 2 or of systemd), for a pod its uid.
    """
    found = []
    for process in sorted(glob.glob(root + "/proc/[0-9]*"), key=lambda path: int(os.path.basename(path))):
        if any(_device(link) for link in glob.glob(process + "/fd/*")):
            command, pid = _read(process + "/comm").strip() or "a process", os.path.basename(process)
            found.append({"process": f"{command} (pid {pid})", "unit": _unit(_read(process + "/cgroup"))})
    return found


def _device(link: str) -> bool:
    try:
        return os.readlink(link).startswith("/dev/nvidia")
    except OSError:
        # It closed the file or ended meanwhile.
        return False


def _unit(cgroups: str) -> str:
    rows = [line.split(":", 2) for line in cgroups.splitlines() if line.count(":") >= 2]
    path = next((path for _number, kind, path in rows if kind in ("", "name=systemd")), "")
    pod = re.search(r"pod([0-9a-f]{8}[-_0-9a-f]+)", path)
    return "pod " + pod.group(1).replace("_", "-") if pod else os.path.basename(path) or "no unit"


def fabric_states() -> list[str]:
    """Return the state of the NVLink fabric of every GPU. Empty if nvidia-smi does not report it."""
    status, out, _err = run(["nvidia-smi", "--query-gpu=fabric.state", "--format=csv,noheader"])
    return [line.strip() for line in out.splitlines() if line.strip()] if status == 0 else []


def mig_as_declared(config: str) -> bool | None:
    """Return whether the GPUs are partitioned as in the site's file. None if the tool is missing or fails otherwise."""
    status = run(["nvidia-mig-parted", "assert", "-f", "/etc/gpufleet/mig.yaml", "-c", config])[0]
    return {0: True, 1: False}.get(status)


def units(names: Sequence[str]) -> dict[str, str]:
    """Return the active state of units. It is `done` for a unit of Type=oneshot (systemd.service(5)) that succeeded."""
    return {name: _unit_state(name) for name in names}


def _unit_state(name: str) -> str:
    state = run(["systemctl", "is-active", name])[1].strip() or "unknown"
    if state != "inactive":
        return state
    # Such a unit is inactive again after it ran, unless it has RemainAfterExit.
    shown = run(["systemctl", "show", "--property=Type,Result,ExecMainExitTimestampMonotonic", name])[1]
    told = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    acted = told.get("ExecMainExitTimestampMonotonic", "0") != "0"
    return "done" if told.get("Type") == "oneshot" and told.get("Result") == "success" and acted else state


def digests(paths: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of files. Empty for a missing one."""
    found = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                found[path] = hashlib.sha256(file.read()).hexdigest()
        except OSError:
            found[path] = ""
    return found


def marks(patterns: Sequence[str]) -> list[str]:
    """Return the files that match one of the patterns."""
    return sorted({path for pattern in patterns for path in glob.glob(pattern)})


def ledger() -> Mapping[str, Any] | None:
    """Return what earlier runs recorded on this host. None if there was none.

    Raises:
        ValueError: the file is not JSON.
    """
    text = _read(LEDGER)
    found: Mapping[str, Any] | None = json.loads(text) if text.strip() else None
    return found


def sysctl(keys: Sequence[str]) -> dict[str, str]:
    """Return the kernel's values of these settings. A setting that it does not have or show is left out."""
    found = {}
    for line in run(["sysctl", "-e", *keys])[1].splitlines() if keys else []:
        key, equal, value = line.partition(" = ")
        if equal:
            # sysctl prints a dot in the name of an interface as a slash.
            found[key.strip().replace("/", ".")] = value.strip()
    return found


def set_elsewhere(keys: Sequence[str]) -> list[list[str]]:
    """Return [key, value, file] of these settings in files that are read after ours."""
    files = {os.path.basename(path): path for place in reversed(_SYSCTL) for path in glob.glob(place + "/*.conf")}
    later = [files[name] for name in sorted(files) if name > _OURS]
    found = []
    for path in [*later, "/etc/sysctl.conf"]:
        for line in _read(path).splitlines():
            key, equal, value = line.partition("=")
            name = key.strip().lstrip("-").replace("/", ".")
            if equal and name in keys and not line.lstrip().startswith(("#", ";")):
                found.append([name, value.strip(), path])
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _modules(text: str) -> dict[str, Any]:
    """Parse rows of /proc/modules: name, size, uses, and users with a comma after each, or `-`."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and _MODULES.match(words[0]) and words[2].isdigit():
            users = [user for user in words[3].split(",") if user and user != "-"]
            found[words[0]] = {"uses": int(words[2]), "users": users}
    return found


def _boot_arguments() -> str:
    """Return the arguments of the default boot entry. Empty where grubby does not manage it."""
    match = re.search(r'^args="(.*)"$', run(["grubby", "--info=DEFAULT"])[1], re.MULTILINE)
    return match.group(1) if match else ""
