# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `tools/attended.py` does for a command, apart from make; with make: tests/rehearsal/test_make_interrupted.py."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from waiting import eventually

# Says when it is ready, counts the signals that it gets, and ends two seconds after the first one.
COUNTS = """
import signal, sys, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append("INT"))
print("ready", flush=True)
for _turn in range(300):
    time.sleep(0.1)
    if got:
        break
time.sleep(2)
open(sys.argv[1], "w").write(" ".join(got))
"""
# Gives its handler up at the first signal, as ansible-core does, and says after a second, in which another one would
# kill it, that it ended in good order.
GIVES_UP = """
import signal, sys, time

def ended(*_):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    time.sleep(1)
    open(sys.argv[1], "w").write("in good order")
    sys.exit(1)

signal.signal(signal.SIGINT, ended)
print("ready", flush=True)
signal.pause()
"""
STUBBORN = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(300)"


@pytest.fixture
def attended(repository: Path) -> list[str]:
    """The words before the command."""
    return [sys.executable, str(repository / "tools" / "attended.py")]


def plain_signals() -> None:
    # Whoever runs the tests may ignore some: `nohup` does with SIGHUP.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(argv: list[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=plain_signals)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def sleeps_of(pid: int) -> int:
    """Return how often a process has gone to sleep."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_that_of_the_command(attended: list[str], script: str, code: int) -> None:
    done = subprocess.run([*attended, "sh", "-c", f"echo said; {script}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "said\n", "")


def test_a_command_that_is_not_there(attended: list[str]) -> None:
    done = subprocess.run([*attended, "no-such-command"], capture_output=True, text=True, check=False)
    assert done.returncode == 127 and "no-such-command: No such file or directory" in done.stderr


def test_what_a_command_leaves_running_after_a_normal_end_stays(attended: list[str], tmp_path: Path) -> None:
    script = f"setsid sleep 300 >/dev/null 2>&1 & echo $! >{tmp_path}/pid"
    subprocess.run([*attended, "sh", "-c", script], check=True, timeout=5)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_as_an_interrupt(attended: list[str], tmp_path: Path, number: signal.Signals) -> None:
    process = start([*attended, sys.executable, "-c", COUNTS, str(tmp_path / "got")])
    process.send_signal(number)
    _output, said = process.communicate(timeout=15)
    assert process.returncode == 130
    assert (tmp_path / "got").read_text() == "INT"
    assert f"ending, {number.name}" in said.decode()


@pytest.mark.parametrize("whole_group", [True, False])
def test_a_signal_to_the_whole_group_reaches_the_command_once(
    attended: list[str], tmp_path: Path, whole_group: bool
) -> None:
    def prepare() -> None:
        plain_signals()
        os.setsid()

    argv = [*attended, sys.executable, "-c", GIVES_UP, str(tmp_path / "ended")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    # The second sleep from now is that after a whole look at the command: the attendant has seen the handler.
    begun = sleeps_of(process.pid)
    while sleeps_of(process.pid) < begun + 2:
        time.sleep(0.02)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 130 and (tmp_path / "ended").read_text() == "in good order"


def test_a_command_that_does_not_end_is_ended(attended: list[str]) -> None:
    process = start([*attended, sys.executable, "-c", STUBBORN])
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 130 and time.monotonic() - began < 10


def test_a_second_signal_ends_it_at_once(attended: list[str]) -> None:
    process = start([*attended, sys.executable, "-c", STUBBORN])
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert time.monotonic() - began < 4


def test_the_command_ends_with_a_killed_attendant(attended: list[str], tmp_path: Path) -> None:
    process = start([*attended, sys.executable, "-c", COUNTS, str(tmp_path / "got")])
    process.kill()
    process.communicate(timeout=15)
    assert (tmp_path / "got").read_text() == "INT"


def test_ctrl_c_reaches_the_command_once(attended: list[str], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()

    def prepare() -> None:
        plain_signals()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    argv = [*attended, sys.executable, "-c", COUNTS, str(tmp_path / "got")]
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=prepare, start_new_session=True
    )
    os.close(theirs)
    text = b""
    while b"ready" not in text:
        text += os.read(ours, 100)
    os.write(ours, b"\x03")
    assert process.wait(15) == 130
    assert (tmp_path / "got").read_text() == "INT"
    os.close(ours)


def test_a_command_without_a_terminal_or_with_a_file_is_left_alone(attended: list[str], tmp_path: Path) -> None:
    with (tmp_path / "output").open("w") as output:
        subprocess.run([*attended, "sh", "-c", "sleep 0.6; echo done"], stdout=output, check=True)
    assert (tmp_path / "output").read_text() == "done\n"
    subprocess.run(["sh", "-c", '"$@" >&-', "sh", *attended, "sleep", "0.6"], check=True)


def test_what_a_killed_attendant_left_is_swept_by_the_next_one(attended: list[str], tmp_path: Path) -> None:
    """Its directory of temporary files stayed for ever after a kill -9: no name said whose it was."""
    environ = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path)}
    killed, lives = (subprocess.Popen([*attended, "sleep", "60"], env=environ) for _number in range(2))
    foreign = tmp_path / "attended-xe2_wtzv"
    foreign.mkdir()
    try:
        assert eventually(lambda: len(list(tmp_path.glob("attended-*-*-*-*"))) == 2)
        killed.kill()
        killed.wait()
        subprocess.run([*attended, "true"], env=environ, check=True)
        (left,) = tmp_path.glob("attended-*-*-*-*")
        assert left.name.startswith(f"attended-{lives.pid}-") and foreign.is_dir()
    finally:
        lives.terminate()
        lives.wait()
