# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to simulated hosts, with the real ansible: nothing reaches this machine, nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest
from waiting import alive, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.asking import resident_of
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.enclosed import (
    enclosed_argv,
    run_enclosed,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.starting import resident_process
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    ModelSpec,
    numbered_nodes,
    write_spec,
)

ROOT = Path(__file__).resolve().parents[2]
SECRET = "only-in-the-model"
HOSTS = 16


@contextmanager
def outside_dev() -> Iterator[Path]:
    """Give a directory that a simulated host sees: directories of tests may be in /dev, of which it has its own."""
    with TemporaryDirectory(prefix="gpufleet-test-") as directory:
        yield Path(directory)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with outside_dev() as directory:
        yield directory


@pytest.fixture(scope="module", params=["resident", "alone"])
def rehearsal(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A prepared rehearsal of sixteen hosts, the last one unreachable; with its resident program and without."""
    spec = ModelSpec(name=SECRET, seed=1, nodes=numbered_nodes(HOSTS, "h100"))
    model = build_model(spec, load_hardware([ROOT / "recipes" / "hardware"]))
    away = replace(model.nodes[-1], reachable=False)
    with ExitStack() as ends:
        root = ends.enter_context(outside_dev()) / "rehearsal"
        root.mkdir()
        prepare_hosts(replace(model, nodes=(*model.nodes[:-1], away)), root, ROOT / "rehearsal" / "recipes")
        write_spec(spec, root / "model.yaml")
        if request.param == "resident":
            ends.enter_context(resident(root))
        try:
            run_enclosed(root, "gpu01", "true")
        except UnavailableError as error:
            pytest.skip(f"no simulated hosts here: {error}")
        yield root


@contextmanager
def resident(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the resident program of a rehearsal, and wait until it answers."""
    process = resident_process(root)
    with subprocess.Popen(process.argv, env={**os.environ, **process.env}) as running:
        try:
            eventually(lambda: _answers(root) or running.poll() is not None, what="the resident program answers")
            assert running.poll() is None
            yield running
        finally:
            running.kill()


def _answers(root: Path) -> bool:
    found = resident_of(root)
    if found is None:
        return False
    found.close()
    return True


def enclosed(root: Path, host: str, command: str, stdin: bytes = b"") -> tuple[int, str]:
    rc, stdout, stderr = run_enclosed(root, host, command, stdin)
    return rc, (stdout + stderr).decode(errors="replace")


def ansible(root: Path, program: str, *arguments: str, hosts: int = HOSTS) -> subprocess.CompletedProcess[str]:
    inventory = root.parent / f"inventory-{hosts}.json"
    variables = {
        "ansible_connection": "gpufleet.rehearsal.rehearsal",
        "ansible_python_interpreter": sys.executable,
        "gpufleet_rehearsal_dir": str(root),
    }
    names = {f"gpu{n:02d}": {} for n in range(1, hosts + 1)}
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": names, "vars": variables}}))
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache"), "ANSIBLE_NOCOLOR": "1"}
    env.pop("ANSIBLE_CONFIG", None)
    argv = [str(Path(sys.executable).with_name(program)), "-i", str(inventory), *arguments]
    return subprocess.run(argv, env=env, cwd=root.parent, capture_output=True, text=True, timeout=240, check=False)


def test_ping_over_sixteen_hosts_one_of_them_unreachable(rehearsal: Path) -> None:
    result = ansible(rehearsal, "ansible", "gpu_nodes", "-m", "ansible.builtin.ping", "-f", "4")
    assert result.returncode == 4
    answered = {line.split()[0] for line in result.stdout.splitlines() if "| SUCCESS =>" in line}
    assert answered == {f"gpu{n:02d}" for n in range(1, HOSTS)}, result.stdout + result.stderr
    assert "gpu16 | UNREACHABLE!" in result.stdout and "No route to host" in result.stdout


def test_no_write_of_a_task_reaches_the_machine(rehearsal: Path, marker: str, tmp_path: Path) -> None:
    places = ["/etc", "/usr", "/var", "/tmp", "/root", "/opt", "/run", "/dev/shm", str(tmp_path)]
    local = tmp_path / "source.txt"
    local.write_text("carried over\n")
    play = [{
        "hosts": "gpu_nodes", "gather_facts": True, "become": True,
        "tasks": [
            {"ansible.builtin.copy": {"content": "x", "dest": f"{{{{ item }}}}/{marker}"}, "loop": places},
            {"ansible.builtin.copy": {"src": str(local), "dest": f"/etc/{marker}.copied"}},
            {"ansible.builtin.lineinfile": {"path": "/etc/hosts", "line": f"192.0.2.1 {marker}"}},
            {"ansible.builtin.file": {"path": "/etc/passwd", "state": "absent"}},
            {"ansible.builtin.command": "nvidia-smi -L", "register": "listing"},
            {"ansible.builtin.slurp": {"src": f"/etc/{marker}.copied"}, "register": "back"},
            {"ansible.builtin.fetch": {"src": f"/etc/{marker}.copied", "dest": f"{tmp_path}/back/"}},
            {"ansible.builtin.assert": {"that": [
                "listing.stdout_lines | length == 8", "(back.content | b64decode) == 'carried over\\n'",
                "ansible_facts.hostname == inventory_hostname",
            ]}},
        ],
    }]  # fmt: skip
    (tmp_path / "play.json").write_text(json.dumps(play))
    before = Path("/etc/passwd").read_bytes(), Path("/etc/hosts").read_bytes()
    result = ansible(rehearsal, "ansible-playbook", str(tmp_path / "play.json"), hosts=2)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert (Path("/etc/passwd").read_bytes(), Path("/etc/hosts").read_bytes()) == before
    assert not list(Path("/etc").glob(f"{marker}*"))
    # Each host's has a place of its own: both are fetched at once.
    fetched = [tmp_path / f"back/{host}/etc/{marker}.copied" for host in ("gpu01", "gpu02")]
    assert [path.read_text() for path in fetched] == ["carried over\n"] * 2
    # The host itself remembers, between commands and between connections.
    assert enclosed(rehearsal, "gpu01", f"cat /usr/{marker} && ! test -e /etc/passwd")[0] == 0


def test_hosts_do_not_see_each_other(rehearsal: Path, marker: str) -> None:
    for place in ("/etc", "/tmp", "/run", "/root"):
        assert enclosed(rehearsal, "gpu03", f"echo x > {place}/{marker}")[0] == 0
        assert enclosed(rehearsal, "gpu03", f"cat {place}/{marker}") == (0, "x\n")
        assert enclosed(rehearsal, "gpu04", f"cat {place}/{marker}")[0] != 0
    one, other = (enclosed(rehearsal, host, "cat /etc/machine-id")[1] for host in ("gpu03", "gpu04"))
    assert one != other and len(one) == len(other) == 33
    assert enclosed(rehearsal, "gpu03", "hostname; echo $GPUFLEET_REHEARSAL_HOST") == (0, "gpu03\ngpu03\n")


def test_the_model_cannot_be_read_from_inside(rehearsal: Path) -> None:
    assert SECRET in (rehearsal / "model.yaml").read_text()
    for attempt in (
        f"cat {rehearsal}/model.yaml",
        f"ls {rehearsal}/hosts",
        f"umount {rehearsal} && cat {rehearsal}/model.yaml",
        f"mount -t tmpfs none /mnt && cat {rehearsal}/model.yaml",
        f"cat /proc/1/root{rehearsal}/model.yaml",
        f"cat /proc/{os.getpid()}/root{rehearsal}/model.yaml",
        f"cd {rehearsal} && cat ../../../../../../../../..{rehearsal}/model.yaml",
        f"nsenter -t 1 -m cat {rehearsal}/model.yaml",
        f"mknod /opt/disk b $(stat -c '%Hd %Ld' {rehearsal}) && head -c 100 /opt/disk",
    ):
        rc, text = enclosed(rehearsal, "gpu05", attempt)
        assert SECRET not in text and (rc != 0 or text == ""), attempt
    assert enclosed(rehearsal, "gpu05", f"ls -A {rehearsal}")[1] == ""
    assert enclosed(rehearsal, "gpu05", f"grep -rs {SECRET} /opt /run /tmp/ansible* | head -1")[1] == ""


@pytest.mark.parametrize(
    "attempt",
    [
        "echo 1 > /proc/sysrq-trigger",
        "mkdir /sys/fs/cgroup/gpufleet-test || touch /sys/kernel/gpufleet-test",
        "date -s '2001-01-01'",
        "hostname gpufleet-test",
        "mount -t tmpfs none /mnt",
        "ip link set lo down",
        "modprobe --ignore-install dummy",
        "ls /dev/mem /dev/kmsg",
    ],
)
def test_the_machine_cannot_be_changed_behind_the_overlay(attempt: str, rehearsal: Path) -> None:
    name = os.uname().nodename
    assert enclosed(rehearsal, "gpu06", attempt)[0] != 0
    assert os.uname().nodename == name and time.time() > 1_500_000_000


def test_kernel_settings_are_the_hosts_own(rehearsal: Path) -> None:
    before = Path("/proc/sys/vm/swappiness").read_text()
    assert enclosed(rehearsal, "gpu07", "cat /proc/sys/vm/swappiness") == (0, before)
    assert enclosed(rehearsal, "gpu07", "echo 77 > /proc/sys/vm/swappiness")[0] == 0
    assert enclosed(rehearsal, "gpu07", "cat /proc/sys/vm/swappiness") == (0, "77\n")
    assert Path("/proc/sys/vm/swappiness").read_text() == before
    assert enclosed(rehearsal, "gpu08", "cat /proc/sys/vm/swappiness") == (0, before)


def test_what_a_command_starts_ends_with_it(rehearsal: Path) -> None:
    started = time.monotonic()
    command = "setsid sleep 7654321 & nohup sh -c 'sleep 7654321' > /dev/null 2>&1 & sleep 0.2; echo started"
    assert enclosed(rehearsal, "gpu09", command) == (0, "started\n")
    assert time.monotonic() - started < 30
    eventually(lambda: not alive("sleep 7654321"), what=lambda: alive("sleep 7654321"))


def test_all_ends_when_the_caller_is_killed(rehearsal: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.enclosed import run_enclosed\n"
        f"run_enclosed(Path({str(rehearsal)!r}), 'gpu10', 'sleep 7654322')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / ".cache")}
    caller = subprocess.Popen([sys.executable, "-c", code], env=env)
    eventually(lambda: set(alive("sleep 7654322")) - {caller.pid}, what="the command runs")
    # The caller names the command, its children run it.
    assert len(alive("sleep 7654322")) >= 2
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    eventually(lambda: not alive("sleep 7654322"), what=lambda: alive("sleep 7654322"))
    assert enclosed(rehearsal, "gpu10", "echo free") == (0, "free\n")


def test_a_command_whose_caller_goes_before_it_is_bound_to_it_does_not_run(rehearsal: Path) -> None:
    hosts = ROOT / "rehearsal/plugins/plugin_utils/hosts"
    code = (
        f"import os, sys, time; sys.path.insert(0, {str(hosts)!r}); import enclosure\n"
        "bind = enclosure.die_with_parent\n"
        # The first process of a namespace is its number one.
        "enclosure.die_with_parent = lambda: (os.getpid() == 1 and time.sleep(2), bind())\n"
        f"enclosure.main([{str(rehearsal)!r}, 'gpu10', str(os.getppid()), 'sleep 7654323'])\n"
    )
    caller = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    eventually(lambda: len(alive("sleep 7654323")) == 2, what="the first process of the namespace")
    caller.kill()
    caller.wait()
    eventually(lambda: not alive("sleep 7654323"), what=lambda: alive("sleep 7654323"))
    assert enclosed(rehearsal, "gpu10", "echo free") == (0, "free\n")


def test_nothing_stays_mounted(rehearsal: Path) -> None:
    enclosed(rehearsal, "gpu11", "true")
    assert str(rehearsal) not in Path("/proc/self/mountinfo").read_text()


def test_exit_codes_signals_and_bytes_come_through(rehearsal: Path) -> None:
    assert enclosed(rehearsal, "gpu12", "exit 7")[0] == 7
    assert enclosed(rehearsal, "gpu12", "kill -TERM $$")[0] == 128 + signal.SIGTERM
    blob = bytes(range(256)) * 4096
    assert run_enclosed(rehearsal, "gpu12", "cat", blob) == (0, blob, b"")
    assert enclosed(rehearsal, "gpu12", "sudo -H -S -n -u root /bin/sh -c 'id -u'") == (0, "0\n")


PYTHON = f"/bin/sh -c 'sudo -H -S -n  -u root /bin/sh -c '\"'\"'echo BECOME-SUCCESS-abc ; {sys.executable}'\"'\"''"


def test_a_program_for_python_runs_as_by_a_python_of_its_own(rehearsal: Path, marker: str) -> None:
    program = f"""
import atexit, os, platform, subprocess, sys, threading
atexit.register(print, "at the end")
threading.Timer(0.3, sys.stdout.write, ("in a thread\\n",)).start()
print(__name__, sys.argv, os.getcwd(), platform.node(), os.environ["HOME"], "LD_PRELOAD" in os.environ)
open("/etc/{marker}", "w").write("x")
print(subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE).stdout.count(b"GPU-"))
sys.exit(7)
"""
    rc, stdout, stderr = run_enclosed(rehearsal, "gpu12", PYTHON, program.encode())
    lines = stdout.decode().splitlines()
    assert sorted(lines) == sorted([
        "BECOME-SUCCESS-abc", "in a thread", "__main__ [''] /root gpu12 /root False", "8", "at the end",
    ]), stderr.decode()  # fmt: skip
    assert (rc, lines[0], lines[-1]) == (7, "BECOME-SUCCESS-abc", "at the end")
    rc, _stdout, stderr = run_enclosed(rehearsal, "gpu12", PYTHON, b"raise ValueError('of the program')")
    assert rc == 1 and b"ValueError: of the program" in stderr
    assert run_enclosed(rehearsal, "gpu12", PYTHON, b"import sys; sys.exit('why')")[::2] == (1, b"why\n")


def test_a_program_for_python_cannot_change_the_machine_either(rehearsal: Path) -> None:
    program = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) != 0
assert libc.sethostname(b"gpufleet", 8) != 0
assert libc.unshare(0x20000) != 0
assert not os.path.exists("/dev/mem") and os.listdir({str(rehearsal)!r}) == []
for number in os.listdir("/proc"):
    if number.isdecimal():
        assert not os.path.exists(f"/proc/{{number}}/root{rehearsal}/model.yaml")
print(sorted(int(number) for number in os.listdir("/proc") if number.isdecimal())[:1], len(os.listdir("/proc/self/fd")))
"""
    rc, stdout, stderr = run_enclosed(rehearsal, "gpu06", PYTHON, program.encode())
    # Standard streams and the directory that is read: neither the lock nor a socket of the resident program.
    assert (rc, stdout.decode().splitlines()[1:]) == (0, ["[1] 4"]), stderr.decode()


def test_a_sudo_that_is_broken_keeps_python_from_starting(rehearsal: Path) -> None:
    host = rehearsal / "hosts" / "gpu15" / "bin" / "sudo"
    host.unlink()
    host.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    host.chmod(0o755)
    assert run_enclosed(rehearsal, "gpu15", PYTHON, b"print('ran')") == (3, b"", b"broken\n")


def test_many_hosts_at_once(rehearsal: Path) -> None:
    names = [f"gpu{number:02d}" for number in range(1, HOSTS)]
    command = "head -c 300000 /dev/zero | wc -c; hostname"
    with ThreadPoolExecutor(max_workers=HOSTS) as pool:
        said = list(pool.map(lambda name: enclosed(rehearsal, name, command), names))
    assert said == [(0, f"300000\n{name}\n") for name in names]


def test_a_command_ends_with_the_resident_program(tmp_path: Path) -> None:
    model = build_model(
        ModelSpec(name=SECRET, seed=1, nodes=numbered_nodes(1, "h100")), load_hardware([ROOT / "recipes" / "hardware"])
    )
    prepare_hosts(model, tmp_path, ROOT / "rehearsal" / "recipes")
    with resident(tmp_path) as running, ThreadPoolExecutor(max_workers=1) as pool:
        if run_enclosed(tmp_path, "gpu01", "true")[0] != 0:
            pytest.skip("no simulated hosts here")
        waiting = pool.submit(run_enclosed, tmp_path, "gpu01", "sleep 7654323")
        eventually(lambda: alive("sleep 7654323"), limit_s=90, what="the command runs")
        running.kill()
        with pytest.raises(UnavailableError, match="went away"):
            waiting.result(timeout=90)
    eventually(lambda: not alive("sleep 7654323"), what=lambda: alive("sleep 7654323"))
    assert enclosed(tmp_path, "gpu01", "echo alone") == (0, "alone\n")


def test_commands_of_one_host_take_turns(rehearsal: Path) -> None:
    script = "n=$(cat /opt/count 2>/dev/null || echo 0); sleep 0.1; echo $((n + 1)) > /opt/count"
    running = [subprocess.Popen(enclosed_argv(rehearsal, "gpu13", script)) for _turn in range(6)]
    assert [process.wait(timeout=60) for process in running] == [0] * 6
    assert enclosed(rehearsal, "gpu13", "cat /opt/count") == (0, "6\n")


def test_where_it_cannot_separate_it_refuses_and_runs_nothing(rehearsal: Path, marker: str, tmp_path: Path) -> None:
    drop = which("setpriv")
    if drop is None or os.geteuid() != 0:
        pytest.skip("needs setpriv and root to take rights away")
    argv = enclosed_argv(rehearsal, "gpu14", f"touch /tmp/{marker}")
    # The process that is named as the parent is the one that replaces itself by the enclosure's caller.
    argv[-2] = str(os.getpid())
    result = subprocess.run([drop, "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", *argv],
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert result.returncode == 125 and "rehearsal enclosure refused" in result.stderr


def test_a_host_that_is_not_there_is_said(rehearsal: Path) -> None:
    result = ansible(rehearsal, "ansible", "gpu17", "-m", "ansible.builtin.ping", hosts=17)
    assert result.returncode != 0 and "no such host in the rehearsal" in result.stdout
