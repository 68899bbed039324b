# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The package manager of a host: what is installed, on hold and available, and what a transaction would do.

Standard library only, Python 3.9 or newer. To simulate dnf, dnf's own Python library is used.
"""

from __future__ import annotations

import configparser
import fcntl
import os
import re
import tempfile
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool

_LIMIT_S = 300
# More than any list of versions of the queried packages. Output that is cut counts as unreadable.
_MAX_BYTES = 64 * 1024 * 1024
_INSTALLS = re.compile(r"^Inst (?P<name>\S+)(?: \[[^\]]*\])? \((?P<version>\S+)")
_REMOVES = re.compile(r"^(?:Remv|Purg) (?P<name>\S+)")
_LOCK = re.compile(r"^(?P<name>.+)-(?P<epoch>\d+):(?P<version>[^-]+)-(?P<release>[^-]+)\.\*$")
_LOCK_LIST = "/etc/dnf/plugins/versionlock.list"
_LOCK_CONFIG = "/etc/dnf/plugins/versionlock.conf"
_DNF_CONFIG = "/etc/dnf/dnf.conf"
_STREAM_FILE = "/etc/dnf/modules.d/nvidia-driver.module"
# State of dpkg that is not merged into its table. While a dead dpkg left some, apt refuses everything.
_DPKG = "/var/lib/dpkg"
_UNFINISHED = ("half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending")


def run(command: Sequence[str]) -> tuple[int, str, str]:
    """Return exit status, output and error output. 127 for a missing program, 124 at the time limit."""
    done = run_tool(list(command), _LIMIT_S, _MAX_BYTES)
    if done["missing"]:
        return 127, "", f"{command[0]}: not found"
    if done["timed_out"]:
        return 124, "", f"{command[0]}: no answer within {_LIMIT_S} s"
    return 1 if done["rc"] is None else done["rc"], done["stdout"], done["stderr"]


def packages(family: str, names: Sequence[str]) -> dict[str, Any]:
    """Return by name the installed version, whether it is on hold, and the available versions, newest first.

    Raises:
        OSError: the package manager fails.
    """
    if not names:
        return {}
    found = {name: {"installed": "", "held": False, "available": []} for name in names}
    (_debian if family == "debian" else _redhat)(names, found)
    return found


def simulate(family: str, specs: Sequence[str], preferences: str, stream: str) -> dict[str, Any]:
    """Return what an installation of these would do: `install` with versions, `remove`, `error`."""
    if family == "debian":
        return _simulate_apt(specs, preferences)
    return _simulate_dnf(specs, preferences.split(), stream)


def enabled_stream() -> str:
    """Return the enabled module stream, `nvidia-driver:<stream>`. Empty if none is."""
    try:
        with open(_STREAM_FILE, encoding="utf-8") as file:
            lines = dict(line.strip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return ""
    return "nvidia-driver:{}".format(lines.get("stream", "")) if lines.get("state") == "enabled" else ""


def duplicates(family: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the packages that rpm has in more than one version, which a transaction leaves if it is killed midway.

    rpm installs a new version before it erases the old one. None of these names may be installed in two versions.

    Raises:
        OSError: rpm fails.
    """
    if family != "redhat" or not names:
        return {}
    found: dict[str, set[str]] = {}
    for line in _installed_rpms(names):
        name, _tab, version = line.partition("\t")
        if name in names and version:
            found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in sorted(found.items()) if len(versions) > 1}


def unfinished(family: str) -> list[str]:
    """Return the packages that a killed dpkg left unfinished. Empty while a dpkg is still running.

    Raises:
        OSError: dpkg fails.
    """
    if family != "debian" or _dpkg_works():
        return []
    listing = _asked(["dpkg-query", "-W", "-f", "${Package}\\t${db:Status-Status}\\n"], (0, 1))
    rows = [line.partition("\t") for line in listing.splitlines()]
    names = sorted({name for name, _tab, status in rows if status in _UNFINISHED})
    try:
        open_records = any(name.isdigit() for name in os.listdir(os.path.join(_DPKG, "updates")))
    except OSError:
        open_records = False
    return names or (["dpkg"] if open_records else [])


def _dpkg_works() -> bool:
    """Tell whether a process holds dpkg's lock, which then finishes its packages itself."""
    for name in ("lock-frontend", "lock"):
        try:
            with open(os.path.join(_DPKG, name), "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            # No such file: dpkg was never used here.
            continue
    return False


def _asked(command: Sequence[str], allowed: Sequence[int] = (0,)) -> str:
    status, out, err = run(command)
    if status not in allowed:
        raise OSError(f"`{' '.join(command[:3])}` ended with {status}: {(err or out).strip()[-500:]}")
    return out


def _debian(names: Sequence[str], found: dict[str, Any]) -> None:
    # dpkg-query exits with 1 if one of the names is unknown.
    listing = _asked(["dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${db:Status-Status}\\n", *names], (0, 1))
    for line in listing.splitlines():
        name, version, status = ([*line.split("\t"), "", ""])[:3]
        if name in found and status == "installed":
            found[name]["installed"] = version
    for name in _asked(["apt-mark", "showhold"]).split():
        if name in found:
            found[name]["held"] = True
    for line in _asked(["apt-cache", "madison", *names], (0, 100)).splitlines():
        words = [word.strip() for word in line.split("|")]
        # Source packages are listed too; these lines end with `Sources`.
        if len(words) == 3 and words[0] in found and words[2].endswith("Packages"):
            origin = " ".join(words[2].split()[:-1])
            found[words[0]]["available"].append({"version": words[1], "origin": origin})


def _redhat(names: Sequence[str], found: dict[str, Any]) -> None:
    for line in _installed_rpms(names):
        name, _tab, version = line.partition("\t")
        if name in found and version:
            found[name]["installed"] = version
    # Streams that are not enabled and versions that are locked are listed too: the plan decides about both.
    command = ["dnf", "-q", "repoquery", "--disableplugin=versionlock", "--disable-modular-filtering"]
    form = "%{name}\\t%{epoch}:%{version}-%{release}\\t%{repoid}"
    rows = [line.split("\t") for line in _asked([*command, "--qf", form, *names]).splitlines()]
    for row in sorted((row for row in rows if len(row) == 3 and row[0] in found), key=_rpm_key, reverse=True):
        offer = {"version": row[1], "origin": row[2]}
        if offer not in found[row[0]]["available"]:
            found[row[0]]["available"].append(offer)
    for name in _locked():
        if name in found:
            found[name]["held"] = True


def _installed_rpms(names: Sequence[str]) -> list[str]:
    # The exit code of rpm is the number of names that are not installed.
    form = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"
    return _asked(["rpm", "-q", "--qf", form, *names], range(len(names) + 1)).splitlines()


def _rpm_key(row: Sequence[str]) -> tuple[Any, ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[a-zA-Z]+", row[1]))


def locks_off(family: str) -> str:
    """Return why dnf would ignore its versionlock list. Empty if it does not, or if the plugin is not installed yet.

    dnf-plugins-core, plugins/versionlock.py, reads `locklist`, dnf itself `enabled` and, in dnf.conf, `plugins`.
    """
    if family != "redhat" or not os.path.exists(_LOCK_CONFIG):
        return ""
    files = {name: configparser.ConfigParser(interpolation=None, strict=False) for name in (_LOCK_CONFIG, _DNF_CONFIG)}
    try:
        for name, file in files.items():
            file.read(name, encoding="utf-8")
        if not files[_DNF_CONFIG].getboolean("main", "plugins", fallback=True):
            return f"{_DNF_CONFIG} has plugins=0"
        if not files[_LOCK_CONFIG].getboolean("main", "enabled", fallback=True):
            return f"{_LOCK_CONFIG} has enabled=0"
    except (configparser.Error, ValueError, OSError) as error:
        return "{} cannot be read: {}".format(_LOCK_CONFIG, " ".join(str(error).split()))
    places = files[_LOCK_CONFIG].get("main", "locklist", fallback=_LOCK_LIST)
    return "" if places == _LOCK_LIST else f"{_LOCK_CONFIG} has locklist={places}"


def _locked() -> list[str]:
    """Return the names in dnf's versionlock list: `name-epoch:version-release.*`."""
    try:
        with open(_LOCK_LIST, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return []
    found = (re.match(r"^(?P<name>[^#!\s]+?)-\d+:", line) for line in lines)
    return [match["name"] for match in found if match]


def _simulate_apt(specs: Sequence[str], preferences: str) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("w", suffix=".pref", encoding="utf-8") as file:
        file.write(preferences)
        file.flush()
        os.chmod(file.name, 0o644)
        command = ["apt-get", "-s", "-y", "--allow-downgrades", "--allow-change-held-packages"]
        command += ["-o", f"Dir::Etc::preferences={file.name}", "install", "--no-install-recommends", *specs]
        status, out, err = run(command)
    if status:
        lines = [line for line in (out + err).splitlines() if line.strip()]
        return {"install": {}, "remove": [], "error": " ".join(lines[-8:])[-1500:] or f"exit status {status}"}
    installs = (_INSTALLS.match(line) for line in out.splitlines())
    removes = (_REMOVES.match(line) for line in out.splitlines())
    return {
        "install": {match["name"]: match["version"] for match in installs if match},
        "remove": [match["name"] for match in removes if match],
        "error": "",
    }


def _simulate_dnf(specs: Sequence[str], locks: Sequence[str], stream: str) -> dict[str, Any]:
    try:
        # Part of the system Python of EL hosts, never of the controller's.
        import dnf  # type: ignore[import-not-found,unused-ignore]
        import dnf.module.module_base  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return {"install": {}, "remove": [], "error": "the Python library of dnf is missing (package python3-dnf)"}
    try:
        with dnf.Base() as base:
            base.conf.read()
            # As the program does: addresses of repositories may have variables of the site.
            base.conf.substitutions.update_from_etc(base.conf.installroot, varsdir=base.conf.varsdir)
            base.conf.install_weak_deps = False
            base.read_all_repos()
            base.fill_sack()
            if stream:
                # As `dnf module switch-to` does: it replaces another enabled stream.
                base.conf.module_stream_switch = True
                dnf.module.module_base.ModuleBase(base).enable([stream])
            for lock in locks:
                _exclude_others(base, lock)
            for spec in specs:
                base.install(spec)
            base.resolve(allow_erasing=True)
            installs = {p.name: f"{p.epoch}:{p.version}-{p.release}" for p in base.transaction.install_set}
            removes = sorted({p.name for p in base.transaction.remove_set} - set(installs))
    except (dnf.exceptions.Error, OSError) as error:
        return {"install": {}, "remove": [], "error": " ".join(str(error).split())[-1500:]}
    return {"install": installs, "remove": removes, "error": ""}


def _exclude_others(base: Any, lock: str) -> None:
    """Exclude all versions of a name but the locked one, as the version lock does."""
    match = _LOCK.match(lock)
    if match:
        named = base.sack.query().available().filter(name=match["name"])
        kept = named.filter(epoch=int(match["epoch"]), version=match["version"], release=match["release"])
        base.sack.add_excludes(named.difference(kept))
