# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the dummy packages of packages.yml and a repository of them.

Called with the table as JSON, `deb` or `rpm`, and a directory. Runs in the root of a host, which has dpkg-deb, rpmbuild
and createrepo_c, and no YAML.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# What the modules of a driver are "loaded" from: the fake modprobe of the hosts reads it (create.yml).
STATE = "/var/lib/dummy-driver"
# Who is declared a fault here by its real line: nv-fabricmanager refuses a driver of another version.
FABRIC_MANAGER = """#!/bin/sh
loaded=$(sed -n 's/.*Kernel Module.*x86_64  *\\([0-9.]*\\).*/\\1/p' /run/kernel/proc/driver/nvidia/version 2>/dev/null)
if [ "$loaded" != "{v}" ]; then
  echo "fabric manager NVIDIA GPU driver interface version {v} don't match with driver version $loaded." \\
       "Please update with matching NVIDIA driver package." >&2
  exit 1
fi
exec hold-driver nv-fabricmanage
"""
SMI = """#!/bin/sh
case "$*" in --power-limit=*) exit 0 ;; esac
state=$(systemctl is-active nvidia-fabricmanager.service)
for gpu in 0 1 2 3 4 5 6 7; do
  [ "$state" = active ] && echo Completed || echo "Not Started"
done
"""


# As the real one, which compiles there; a test that wants to end a roll in it says so.
BUILDS = """#!/bin/sh
[ ! -e /run/dkms-builds ] || echo $$ >/run/dkms-builds-as
while [ -e /run/dkms-builds ]; do sleep 0.2; done
cp /var/lib/dummy-driver/version /var/lib/dummy-driver/built
"""
# What the boot loader takes then, and what the hooks of a kernel's package leave on Debian (scenario reboots).
INSTALLS_KERNEL = """#!/bin/sh
mkdir -p /var/lib/dummy-boot
echo {release} >/var/lib/dummy-boot/next
"""
ASKS_FOR_REBOOT = """touch /run/reboot-required
echo {name} >>/run/reboot-required.pkgs
"""


def release_of(row: Mapping[str, Any], family: str) -> str:
    """What `uname -r` says of a package of a kernel: on EL its version and architecture, else part of its name."""
    return f"{row['full'].split(':')[-1]}.x86_64" if family == "rpm" else str(row["name"]).removeprefix("linux-image-")


def script_of(row: Mapping[str, Any], family: str) -> str:
    """The script that runs after a package was unpacked."""
    if "kernel" in row["files"]:
        script = INSTALLS_KERNEL + (ASKS_FOR_REBOOT if family == "deb" else "")
        return script.format(name=row["name"], release=release_of(row, family))
    return BUILDS if "module" in row["files"] else ""


def unit(description: str, command: str) -> str:
    """A service that stays."""
    install = "[Install]\nWantedBy=multi-user.target\n"
    # What is left of the daemon counts anew for the driver.
    after = "ExecStopPost=-/usr/local/sbin/modprobe --count\n"
    return f"[Unit]\nDescription={description}\n[Service]\nExecStart={command}\n{after}{install}"


def files_of(row: Mapping[str, Any], family: str) -> Iterator[tuple[str, str, int]]:
    """Path, content and mode of every file of a package."""
    kinds, version, kernel = row["files"], row["v"], release_of(row, family)
    units = "/usr/lib/systemd/system"
    for kind in kinds:
        if kind == "library":
            place = "/usr/lib/x86_64-linux-gnu" if family == "deb" else "/usr/lib64"
            yield f"{place}/libnvidia-ml.so.{version}", "", 0o644
        elif kind == "module":
            yield f"{STATE}/version", version + "\n", 0o644
        elif kind == "smi":
            yield "/usr/bin/nvidia-smi", SMI, 0o755
        elif kind == "fabricmanager":
            yield "/usr/bin/nv-fabricmanager", FABRIC_MANAGER.replace("{v}", version), 0o755
            yield (
                f"{units}/nvidia-fabricmanager.service",
                unit("NVIDIA fabric manager", "/usr/bin/nv-fabricmanager"),
                0o644,
            )
        elif kind == "persistenced":
            yield "/usr/bin/nvidia-persistenced", "#!/bin/sh\nexec hold-driver nvidia-persiste\n", 0o755
            yield f"{units}/nvidia-persistenced.service", unit("persistence", "/usr/bin/nvidia-persistenced"), 0o644
        elif kind == "kernel":
            yield f"/boot/vmlinuz-{kernel}", "", 0o644
        elif kind == "dcgm":
            yield f"{units}/nvidia-dcgm.service", unit("DCGM", "/usr/local/sbin/hold-driver nv-hostengine"), 0o644
        else:
            yield f"{units}/{kind}.service", unit("time", "/bin/sleep infinity"), 0o644


def rows(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every package of a family with its version, relations and files written out."""
    epoch = f"{table['epoch']}:" if table.get("epoch") else ""
    for version in table["versions"]:
        branch = version.split(".")[0]
        for entry in table["packages"]:
            if "branches" in entry and int(branch) not in entry["branches"]:
                continue
            words = {"v": version, "b": branch, "full": f"{epoch}{version}-{table['release']}"}
            row = {
                key: [text.format(**words) for text in entry.get(key, [])]
                for key in ("depends", "conflicts", "provides")
            }
            yield {
                **row,
                "name": entry["name"].format(**words),
                "full": words["full"],
                "v": version,
                "files": entry.get("files", []),
            }
    for entry in table["others"]:
        row = {key: entry.get(key, []) for key in ("depends", "conflicts", "provides", "files")}
        yield {**row, "name": entry["name"], "full": entry["full"], "v": entry["full"].split(":")[-1].split("-")[0]}


def build_deb(row: Mapping[str, Any], work: Path, out: Path) -> str:
    """Build one .deb; return its stanza of the Packages file."""
    root = work / f"{row['name']}_{row['full'].replace(':', '.')}"
    for path, content, mode in files_of(row, "deb"):
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
        place.chmod(mode)
    control = [
        f"Package: {row['name']}",
        f"Version: {row['full']}",
        "Architecture: all",
        "Maintainer: nobody <nobody@example>",
    ]
    for field, key in (("Depends", "depends"), ("Conflicts", "conflicts"), ("Provides", "provides")):
        control += [f"{field}: {', '.join(row[key])}"] if row[key] else []
    control += ["Description: empty package for a test", ""]
    (root / "DEBIAN").mkdir(parents=True, exist_ok=True)
    (root / "DEBIAN/control").write_text("\n".join(control), encoding="utf-8")
    postinst = script_of(row, "deb")
    if postinst:
        (root / "DEBIAN/postinst").write_text(postinst, encoding="utf-8")
        (root / "DEBIAN/postinst").chmod(0o755)
    target = out / f"{root.name}_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "-Znone", "--root-owner-group", str(root), str(target)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    data = target.read_bytes()
    about = [f"Filename: ./{target.name}", f"Size: {len(data)}", f"SHA256: {hashlib.sha256(data).hexdigest()}", ""]
    return "\n".join(control[:-1] + about)


def build_rpm(row: Mapping[str, Any], work: Path, out: Path) -> None:
    """Build one .rpm."""
    epoch, _colon, rest = row["full"].rpartition(":")
    version, _dash, release = rest.partition("-")
    spec = [f"Name: {row['name']}", f"Epoch: {epoch or 0}", f"Version: {version}", f"Release: {release or 1}"]
    spec += ["Summary: empty package for a test", "License: none", "BuildArch: noarch", "AutoReqProv: no"]
    for field, key in (("Requires", "depends"), ("Conflicts", "conflicts"), ("Provides", "provides")):
        spec += [f"{field}: {text}" for text in row[key]]
    listed, install = [], ["mkdir -p %{buildroot}"]
    for number, (path, content, mode) in enumerate(files_of(row, "rpm")):
        source = work / f"{row['name']}-{version}-{number}"
        source.write_text(content, encoding="utf-8")
        install.append(f"install -D -m {mode:o} {source} %{{buildroot}}{path}")
        listed.append(f"%attr({mode:o}, root, root) {path}")
    script = script_of(row, "rpm")
    spec += [
        "%description",
        "Empty.",
        "%install",
        *install,
        *(["%post", script] if script else []),
        "%files",
        *listed,
        "",
    ]
    file = work / f"{row['name']}-{version}.spec"
    file.write_text("\n".join(spec), encoding="utf-8")
    command = ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {work}", "--define", f"_rpmdir {out}", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def modules_yaml(table: Mapping[str, Any]) -> str:
    """The module metadata of the streams, as createrepo_c takes it in."""
    found = []
    for stream, names in table["streams"].items():
        artifacts = [
            f"        - {name}-{table['epoch']}:{version}-{table['release']}.noarch"
            for version in table["versions"]
            for name in names
        ]
        found.append(
            "---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n"
            f'  stream: "{stream}"\n  version: 1\n  context: deadbeef\n  arch: x86_64\n  summary: driver\n'
            "  description: driver\n  license:\n    module: [none]\n  artifacts:\n    rpms:\n"
            + "\n".join(artifacts)
            + "\n...\n"
        )
    return "".join(found)


def main(table_file: str, family: str, directory: str) -> None:
    """Build all packages of a family and their repository."""
    table = json.loads(Path(table_file).read_text(encoding="utf-8"))[family]
    out, work = Path(directory), Path(directory) / ".work"
    work.mkdir(parents=True, exist_ok=True)
    if family == "deb":
        stanzas = [build_deb(row, work, out) for row in rows(table)]
        (out / "Packages").write_text("\n".join(stanzas) + "\n", encoding="utf-8")
        return
    for row in rows(table):
        build_rpm(row, work, out)
    subprocess.run(["createrepo_c", "--quiet", str(out)], check=True)
    (out / "modules.yaml").write_text(modules_yaml(table), encoding="utf-8")
    subprocess.run(
        ["modifyrepo_c", "--mdtype=modules", str(out / "modules.yaml"), str(out / "repodata")],
        check=True,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
