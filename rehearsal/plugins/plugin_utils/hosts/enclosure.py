# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs one shell command as a simulated host: in separate namespaces, over an overlay of the machine's file system.

A standalone program (`python -I -S enclosure.py <rehearsal dir> <host> <parent pid> <command>`) with the standard
library only and as few imports as possible: it starts once for every command of every host. While a rehearsal runs, its
resident program (resident.py) does the same in a fork of itself.

The command has access to the machine's files, writable, but every write goes to the host's own layer; to that host's
tools, host name, process table, /run and /dev; to a copy of /proc/sys. It has no access to the rehearsal directory (the
cluster model, the other hosts), to other processes, and to devices. It loses the capabilities with which root could
still reach the machine (mounts, modules, clock, network settings, device nodes). It ends with its parent, and
everything that it started ends with it.

Exit status: that of the command; 125 with one line on standard error if the enclosure could not be made. The command
never runs on the bare machine.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

TYPE_CHECKING = False  # importing typing would take a tenth of the whole start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Become = Callable[[str, str], NoReturn]

REFUSED = 125
REFUSAL_PREFIX = "rehearsal enclosure refused: "
TOOLS_AT = "/opt/gpu-node"
HOST_VARIABLE, COMPILED_VARIABLE = "GPUFLEET_REHEARSAL_HOST", "GPUFLEET_REHEARSAL_COMPILED"
COMPILED_AT = f"{TOOLS_AT}/compiled"
# Variables of the caller's environment that a command gets.
CALLERS_VARIABLES = ("LANG", "LC_ALL", "TERM", "TZ")
SEARCH_PATH = f"{TOOLS_AT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_SIGKILL = 9
_NEW_NS, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PID = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 0x1
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, ipc_lock, sys_chroot, sys_nice,
# sys_resource, audit_write, setfcap. All others could reach the machine behind the overlay.
_KEPT_CAPABILITIES = frozenset((0, 1, 3, 4, 5, 6, 7, 8, 10, 14, 18, 23, 24, 29, 31))
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522
# Beside this file, which the command can read as well: see sitecustomize.py there.
PYTHON_START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_start")
_OWN_TREES = ("/proc", "/sys", "/dev", "/run")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

# Read once: inside a user namespace a normal user is root, too.
_IS_USER = os.geteuid() != 0

_libc = ctypes.CDLL(None, use_errno=True)


class Refusal(Exception):
    """The enclosure cannot be made here."""


class MountPoint:
    """One line of mountinfo: device number, path inside that file system, where it is mounted."""

    __slots__ = ("device", "root", "target")

    def __init__(self, device: str, root: str, target: str) -> None:
        self.device = device
        self.root = root
        self.target = target


def _call(name: str, what: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        raise Refusal(f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = (
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        os.fsencode(options) or None,
    )
    _call("mount", f"mount {kind or source} on {target}", *arguments)


def _make_directory(path: str) -> str:
    os.makedirs(path, exist_ok=True)
    return path


# -- mounts of the machine ----------------------------------------------------------------------------------------


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _mount_points() -> list[MountPoint]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        rows = [line.split() for line in lines]
    return [MountPoint(row[2], _unescape(row[3]), _unescape(row[4])) for row in rows]


def _is_within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree.rstrip("/") + "/")


def _other_trees(points: list[MountPoint], rehearsal: str) -> list[str]:
    """Return mount points beside the root that a command may need (a home, a scratch disk), outermost first."""
    own = (*_OWN_TREES, rehearsal)
    targets = {point.target for point in points if point.target != "/"}
    return sorted(target for target in targets if not any(_is_within(target, tree) for tree in own))


def _joined(base: str, rest: str) -> str:
    return os.path.normpath(base.rstrip("/") + "/" + rest)


def _names_of(rehearsal: str, points: list[MountPoint]) -> list[str]:
    """Return every path to the rehearsal directory: bind mounts give it more than one."""
    home = max((point for point in points if _is_within(rehearsal, point.target)), key=lambda point: len(point.target))
    inside = _joined(home.root, os.path.relpath(rehearsal, home.target))
    names = {rehearsal}
    for point in points:
        if point.device == home.device and _is_within(inside, point.root):
            names.add(_joined(point.target, os.path.relpath(inside, point.root)))
    return sorted(names)


# -- the host's own file system ----------------------------------------------------------------------------------


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def _overlay(lower: str, upper: str, work: str, target: str, *, as_user: bool) -> None:
    layers = f"upperdir={_escaped(_make_directory(upper))},workdir={_escaped(_make_directory(work))}"
    options = f"lowerdir={_escaped(lower)},{layers}" + (",userxattr" if as_user else "")
    _mount("overlay", target, "overlay", _MS_NODEV, options)


def _overlay_or_read_only(lower: str, upper: str, work: str, target: str, *, as_user: bool) -> None:
    """Give the host its own view of a tree. If an overlay is refused, the view is read-only."""
    try:
        if not os.path.isdir(lower):
            raise Refusal("a file")
        _overlay(lower, upper, work, target, as_user=as_user)
    except Refusal:
        _mount(lower, target, flags=_MS_BIND | _MS_REC)
        _read_only(target)


def _add_tree(tree: str, index: int, host_dir: str, root: str, *, as_user: bool) -> None:
    layer = f"{host_dir}/layers/{index}{tree.replace('/', '-')}"
    if os.path.exists(root + tree):
        _overlay_or_read_only(tree, f"{layer}/upper", f"{layer}/work", root + tree, as_user=as_user)


def _assemble(host_dir: str, root: str) -> None:
    """Build the host's root from one overlay for each directory of the machine's root.

    A user namespace may not put one overlay over the whole root, because other file systems are mounted in it.
    """
    upper = f"{host_dir}/layers/root/upper"
    _mount(_make_directory(upper), root, flags=_MS_BIND)
    for name in os.listdir("/"):
        source, target = f"/{name}", f"{root}/{name}"
        if os.path.islink(source):
            if not os.path.lexists(target):
                os.symlink(os.readlink(source), target)
        elif os.path.isdir(source):
            _make_directory(target)
            # A directory that the user cannot read (the home of root) belongs to the host alone from the start.
            if source not in _OWN_TREES and os.access(source, os.R_OK | os.X_OK):
                work = f"{host_dir}/layers/root/works/{name}"
                _overlay_or_read_only(source, f"{upper}/{name}", work, target, as_user=True)


def _read_only(target: str) -> None:
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    arguments = (_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, ctypes.sizeof(attributes))
    _call("syscall", f"making {target} read-only (needs Linux 5.12)", *arguments)


def _make_devices(root: str) -> None:
    dev = f"{root}/dev"
    _mount("tmpfs", dev, "tmpfs", _MS_NOSUID, "mode=755,size=4m")
    for name in _DEVICES:
        os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        _mount(f"/dev/{name}", f"{dev}/{name}", flags=_MS_BIND)
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ):
        os.symlink(target, f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    _mount("devpts", f"{dev}/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    os.mkdir(f"{dev}/shm")
    _mount("tmpfs", f"{dev}/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")


def _make_kernel_trees(rehearsal: str, host_dir: str, root: str, *, as_user: bool) -> None:
    _mount("/sys", f"{root}/sys", flags=_MS_BIND | _MS_REC)
    _read_only(f"{root}/sys")
    # All of /proc is read-only (sysrq-trigger, irq, ...). Kernel settings are written to the host's copy.
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_RDONLY)
    layer = f"{host_dir}/layers/proc-sys"
    settings = f"{rehearsal}/shared/proc-sys"
    _overlay(settings, f"{layer}/upper", f"{layer}/work", f"{root}/proc/sys", as_user=as_user)


def _build_root(rehearsal: str, host_dir: str, *, as_user: bool) -> str:
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    points = _mount_points()
    root = _make_directory(f"{host_dir}/root")
    if as_user:
        _assemble(host_dir, root)
    else:
        _overlay("/", f"{host_dir}/layers/root/upper", f"{host_dir}/layers/root/work", root, as_user=False)
    for index, tree in enumerate(_other_trees(points, rehearsal)):
        _add_tree(tree, index, host_dir, root, as_user=as_user)
    for name in ("bin", "out"):
        target = _make_directory(f"{root}{TOOLS_AT}/{name}")
        _mount(f"{host_dir}/{name}", target, flags=_MS_BIND)
        _read_only(target)
    # Hosts share compiled files: see python_start.
    compiled = _make_directory(f"{rehearsal}/shared/compiled")
    _mount(compiled, _make_directory(f"{root}{COMPILED_AT}"), flags=_MS_BIND)
    _mount(_make_directory(f"{host_dir}/run"), _make_directory(f"{root}/run"), flags=_MS_BIND)
    _make_devices(root)
    _make_kernel_trees(rehearsal, host_dir, root, as_user=as_user)
    for name in _names_of(rehearsal, points):
        if os.path.isdir(root + name):
            _mount("tmpfs", root + name, "tmpfs", _MS_RDONLY, "mode=0,size=4k")
    return root


def _enter(root: str) -> None:
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise Refusal(f"machine type {machine} is not known")
    os.chdir(root)
    _call("syscall", f"pivot_root to {root}", _PIVOT_ROOT[machine], b".", b".")
    _call("umount2", "letting go of the machine's root", b".", _MNT_DETACH)
    os.chdir("/")


# -- the processes -----------------------------------------------------------------------------------------------


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    _call("prctl", "binding to the parent process", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def _drop_capabilities() -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in _KEPT_CAPABILITIES:
            # Numbers above the kernel's last one are refused, which does not matter.
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    # The bounding set applies to programs that are started, this to the process itself: see capset(2).
    kept = sum(1 << capability for capability in _KEPT_CAPABILITIES)
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _call("capget", "reading capabilities", header, sets)
    for index, on_hold in enumerate(sets):
        sets[index] = on_hold & (kept >> 32 * (index // 3)) & 0xFFFFFFFF
    _call("capset", "dropping capabilities", header, sets)


def _separate(*, as_user: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    flags = _NEW_NS | _NEW_UTS | _NEW_IPC | _NEW_PID | (_NEW_USER if as_user else 0)
    _call("unshare", "making namespaces", flags)
    if as_user:
        for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as handle:
                handle.write(line)


def _environment(host: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in CALLERS_VARIABLES if name in os.environ}
    account = {"HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh"}
    python = {"PYTHONPATH": PYTHON_START, COMPILED_VARIABLE: COMPILED_AT}
    return {**kept, **account, **python, "PATH": SEARCH_PATH, HOST_VARIABLE: host}


def login(host: str) -> dict[str, str]:
    """Go to the home of the host's root. Return the environment there."""
    os.chdir("/root" if os.access("/root", os.X_OK) else "/")
    return _environment(host)


def run_shell(host: str, command: str) -> NoReturn:
    """Become the shell that runs a command."""
    environment = login(host)
    os.execve("/bin/sh", ["/bin/sh", "-c", command], environment)


def _run(host: str, command: str, become: Become) -> int:
    """Run the command and wait for it as the init of the namespace, which also reaps orphans."""
    if (child := os.fork()) == 0:
        become(host, command)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _guarded(rehearsal: str, host: str, command: str, ready: int, bound: int, become: Become) -> NoReturn:
    """First process of the namespace: build, enter, run, report."""
    try:
        die_with_parent()
        os.write(bound, b"1")
        if os.read(ready, 1) != b"1":
            os._exit(REFUSED)
        host_dir = f"{rehearsal}/hosts/{host}"
        root = _build_root(rehearsal, host_dir, as_user=_IS_USER)
        _call("sethostname", "setting the host name", host.encode(), len(host.encode()))
        _enter(root)
        _drop_capabilities()
        os._exit(_run(host, command, become))
    except (Refusal, OSError) as problem:
        refuse(problem)
        os._exit(REFUSED)


def refuse(problem: Exception) -> None:
    """Write the reason why the command was not run to standard error."""
    os.write(2, f"{REFUSAL_PREFIX}{problem}\n".encode(errors="replace"))


def lock_file(rehearsal: str, host: str) -> int:
    """Return the file that a command of the host locks.

    Two overlays with the same upper layer at the same time are undefined, so a host runs one command at a time.
    """
    return os.open(f"{rehearsal}/hosts/{host}/lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def start(rehearsal: str, host: str, command: str, become: Become = run_shell) -> int:
    """Start the first process of the host's namespaces, which runs the command. Return its pid.

    Everything on the host ends with that process, and that process with this one.

    Args:
        become: called in the process of the command, on the host; replaces or ends it.
    """
    _separate(as_user=_IS_USER)
    (ready, report), (received, bound) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.close(report)
        _guarded(rehearsal, host, command, ready, bound, become)
    os.close(bound)
    # Inside its namespace a child cannot check whether its parent exists, so it continues only once it is bound to it.
    os.read(received, 1)
    os.write(report, b"1")
    return child


def main(arguments: list[str]) -> int:
    """Run the command in the arguments. Return its exit status."""
    rehearsal, host, parent, command = arguments
    rehearsal = os.path.realpath(rehearsal)
    try:
        die_with_parent()
        if os.getppid() != int(parent):
            return REFUSED
        fcntl.flock(lock_file(rehearsal, host), fcntl.LOCK_EX)
        return os.waitstatus_to_exitcode(os.waitpid(start(rehearsal, host, command), 0)[1])
    except (Refusal, OSError) as problem:
        refuse(problem)
        return REFUSED


def run() -> NoReturn:
    """Run the command line."""
    os._exit(main(sys.argv[1:]) & 0xFF)


if __name__ == "__main__":
    run()
