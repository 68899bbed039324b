# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Supervisor and sweep with small real processes: every way to die, nothing left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import always, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    AbortedError,
    BringupError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.ports import free_ports
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle import starter
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.mounts import mounts_below
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import (
    PortClashError,
    id_prefix,
    new_id,
    read_state,
    refuse_second,
    start,
    stop,
    sweep,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import (
    MARKER,
    Probe,
    ProcessId,
    ProcessSpec,
    RehearsalState,
    SupervisorSpec,
    descendants,
    identify,
    kill_all,
    lineage,
    marked,
    orphans,
    state_path,
)

SLEEPER = (sys.executable, "-c", "import time; time.sleep(300)")


def alive() -> None:
    """The controller lives."""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "rehearsal"
    path.mkdir()
    yield path
    stop(path)


@pytest.fixture
def controller() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of ansible-playbook."""
    process = subprocess.Popen(SLEEPER)
    yield process
    process.kill()
    process.wait()


def sleepers(*names: str, wave: int = 0) -> tuple[ProcessSpec, ...]:
    return tuple(ProcessSpec(name=name, argv=SLEEPER, wave=wave) for name in names)


def spec_for(directory: Path, owner: int, processes: tuple[ProcessSpec, ...], keep: bool = False) -> SupervisorSpec:
    identity = identify(owner)
    assert identity is not None
    secret = directory / "cluster"
    secret.mkdir(exist_ok=True)
    return SupervisorSpec(
        rehearsal_id=new_id(directory),
        directory=str(directory),
        controller_pid=identity.pid,
        controller_start=identity.start_ticks,
        keep=keep,
        processes=processes,
        volatile=(str(secret),),
    )


def begin(spec: SupervisorSpec) -> RehearsalState:
    return start(spec, Progress(silent), alive)


def everything(state: RehearsalState) -> list[ProcessId]:
    return [state.supervisor, *(child.process for child in state.children)]


def gone(state: RehearsalState) -> bool:
    return not any(process.alive() for process in everything(state))


def test_a_pid_with_another_start_is_another_process() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert own.alive()
    assert not ProcessId(own.pid, own.start_ticks + 1).alive()
    assert identify(2**22 + 1) is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    eventually(lambda: identify(child.pid) is None)
    child.wait()


def test_waves_start_in_order_and_stop_completely(directory: Path) -> None:
    trace = directory / "trace"
    note = (sys.executable, "-c", f"open({str(trace)!r}, 'a').write('once\\n')")
    later = (sys.executable, "-c", f"open({str(trace)!r}, 'a').write('later\\n'); import time; time.sleep(300)")
    processes = (
        ProcessSpec(name="later", argv=later, wave=2),
        ProcessSpec(name="once", argv=note, wave=1, once=True),
        *sleepers("first"),
    )
    state = begin(spec_for(directory, os.getpid(), processes))
    assert state.phase == "ready"
    assert [child.name for child in state.children] == ["first", "once", "later"]
    eventually(lambda: trace.read_text() == "once\nlater\n")
    assert stop(directory)
    assert gone(state)
    assert not (directory / "cluster").exists()
    final = read_state(directory)
    assert final is not None
    assert final.phase == "stopped"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_controller(
    directory: Path, controller: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    state = begin(spec_for(directory, controller.pid, sleepers("a", "b")))
    controller.send_signal(number)
    controller.wait()
    eventually(lambda: gone(state))
    assert not (directory / "cluster").exists()


def test_workers_of_a_killed_controller_end_with_it(directory: Path) -> None:
    worker = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '300']).pid, flush=True); time.sleep(300)"
    parent = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    orphan = identify(int(parent.stdout.readline()))
    assert orphan is not None
    assert orphan in descendants(parent.pid)
    state = begin(spec_for(directory, parent.pid, sleepers("a")))
    time.sleep(0.4)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    eventually(lambda: gone(state) and not orphan.alive())


def test_a_kept_one_outlives_its_controller_and_stops_when_told(
    directory: Path, controller: subprocess.Popen[bytes]
) -> None:
    state = begin(spec_for(directory, controller.pid, sleepers("a"), keep=True))
    controller.kill()
    controller.wait()
    always(lambda: not gone(state), 0.8)
    with pytest.raises(UnavailableError, match="one is up already"):
        refuse_second(directory)
    stop(directory)
    assert gone(state)


def test_a_kept_one_does_not_outlive_a_controller_that_dies_while_it_starts(
    directory: Path, controller: subprocess.Popen[bytes]
) -> None:
    never = ProcessSpec(name="never", argv=SLEEPER, wave=1, probe=Probe(port=1))
    spec = spec_for(directory, controller.pid, (*sleepers("a"), never), keep=True)

    def dies() -> None:
        state = read_state(directory)
        if state is not None and "never" in state.waiting_for and controller.poll() is None:
            controller.kill()
            controller.wait()

    with pytest.raises(AbortedError):
        start(spec, Progress(silent), dies)
    state = read_state(directory)
    assert state is not None
    eventually(lambda: gone(state))


def test_children_die_with_a_killed_supervisor_and_the_rest_is_swept(directory: Path) -> None:
    # The child starts a process in a session of its own, as a real one may; the kernel does not kill that one.
    escape = "import subprocess, time; subprocess.Popen(['sleep', '300'], start_new_session=True); time.sleep(300)"
    processes = (ProcessSpec(name="a", argv=(sys.executable, "-c", escape), wave=0), *sleepers("b"))
    state = begin(spec_for(directory, os.getpid(), processes))
    eventually(lambda: len(marked(id_prefix(directory))) == 4)
    os.kill(state.supervisor_pid, signal.SIGKILL)
    eventually(lambda: gone(state))
    refuse_second(directory)
    found = sweep(directory)
    assert any("sleep" in text for text in found)
    assert any("cluster" in text for text in found)
    assert marked(id_prefix(directory)) == []
    assert sweep(directory) == []


def written(directory: Path) -> None:
    """What simulators write, with what the kernel leaves of an overlay, beside a log and the day of the room."""
    closed = directory.joinpath("hosts", "gpu01", "layers", "root", "work", "work")
    closed.mkdir(parents=True, exist_ok=True)
    for name in ("bmcs", "facility", "logs"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    closed.chmod(0)
    for name in ("bmcs/bmc-good.pem", "facility/signer.key", "resident.sock", "model.yaml", "logs/own.log", *STAY):
        (directory / name).write_text("x", encoding="utf-8")


STAY = ("facility-day", "mine.txt")


@pytest.mark.parametrize("killed", [False, True])
def test_a_stop_removes_what_simulators_wrote_and_leaves_logs(directory: Path, killed: bool) -> None:
    state = begin(replace(spec_for(directory, os.getpid(), sleepers("a")), simulated=True))
    written(directory)
    if killed:
        os.kill(state.supervisor_pid, signal.SIGKILL)
        eventually(lambda: gone(state))
    found = stop(directory)
    assert {path.name for path in directory.iterdir()} == {".lock", "logs", "rehearsal.json", "supervisor.json", *STAY}
    assert (directory / "logs/own.log").is_file()
    assert any("what its simulators wrote" in text for text in found) is killed
    assert stop(directory) == []


def test_a_start_that_failed_leaves_what_the_next_try_starts_on(directory: Path) -> None:
    written(directory)
    with pytest.raises(BringupError):
        begin(
            replace(spec_for(directory, os.getpid(), (ProcessSpec(name="x", argv=("/none",), wave=0),)), simulated=True)
        )
    assert (directory / "hosts").is_dir() and (directory / "bmcs/bmc-good.pem").is_file()
    assert stop(directory) and not (directory / "hosts").exists()


def test_nothing_is_removed_below_a_mount_that_stays(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = begin(replace(spec_for(directory, os.getpid(), sleepers("a")), simulated=True))
    os.kill(state.supervisor_pid, signal.SIGKILL)
    eventually(lambda: gone(state))
    written(directory)
    monkeypatch.setattr(starter, "unmount_below", lambda _directory: [str(directory / "hosts/gpu01/root")])
    with pytest.raises(UnavailableError, match="cannot remove mount"):
        stop(directory)
    assert (directory / "hosts/gpu01").is_dir()


def test_sweep_leaves_another_directory_alone(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    state = begin(spec_for(directory, os.getpid(), sleepers("a")))
    assert sweep(other) == []
    assert not gone(state)


def test_sweep_does_not_trust_a_reused_pid(directory: Path) -> None:
    innocent = subprocess.Popen(SLEEPER, env={k: v for k, v in os.environ.items() if k != MARKER})
    time.sleep(0.05)  # start times count in hundredths of a second
    try:
        state = begin(spec_for(directory, os.getpid(), sleepers("a")))
        stop(directory)
        stale = [replace(child, pid=innocent.pid) for child in state.children]
        state_path(directory).write_text(dumps(replace(state, children=tuple(stale), supervisor_pid=innocent.pid)))
        assert sweep(directory) == []
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 99}'])
def test_a_broken_state_file_hides_nothing(directory: Path, content: str) -> None:
    state = begin(spec_for(directory, os.getpid(), sleepers("a")))
    state_path(directory).write_text(content)
    assert read_state(directory) is None
    assert stop(directory)
    assert gone(state)


def test_a_process_that_fails_to_start_is_named_with_its_log(directory: Path) -> None:
    dying = (sys.executable, "-c", "print('flag --frobnicate is not known'); raise SystemExit(4)")
    processes = (*sleepers("a"), ProcessSpec(name="kube-thing", argv=dying, wave=1, probe=Probe(port=1)))
    with pytest.raises(BringupError, match="kube-thing ended with exit code 4") as caught:
        begin(spec_for(directory, os.getpid(), processes))
    assert "--frobnicate" in caught.value.evidence[0]
    state = read_state(directory)
    assert state is not None
    assert gone(state)


def test_a_process_that_never_serves_is_given_up(directory: Path) -> None:
    port = free_ports(("x",))["x"]
    mute = ProcessSpec(name="mute", argv=SLEEPER, wave=0, probe=Probe(port=port, path="/healthz"), limit_s=0.5)
    with pytest.raises(BringupError, match="mute is not ready after"):
        begin(spec_for(directory, os.getpid(), (mute,)))


def test_a_missing_program_is_said(directory: Path) -> None:
    with pytest.raises(BringupError, match="absent cannot be started"):
        begin(spec_for(directory, os.getpid(), (ProcessSpec(name="absent", argv=("/nonexistent/x",), wave=0),)))


def test_a_taken_port_is_told_apart_from_other_failures(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        bind = f"import socket,sys; s=socket.socket(); s.bind(('127.0.0.1', {port}))"
        clash = ProcessSpec(
            name="clash", argv=(sys.executable, "-c", f"try:\n {bind}\nexcept OSError as e: sys.exit(str(e).lower())"),
            wave=0, probe=Probe(port=1),
        )  # fmt: skip
        with pytest.raises(PortClashError):
            begin(spec_for(directory, os.getpid(), (clash,)))


def test_a_death_later_on_is_in_the_state(directory: Path) -> None:
    state = begin(spec_for(directory, os.getpid(), sleepers("a", "b")))
    os.kill(state.children[1].pid, signal.SIGKILL)
    eventually(lambda: json.loads(state_path(directory).read_text())["phase"] == "degraded")
    degraded = read_state(directory)
    assert degraded is not None
    assert degraded.problem == "b was killed by signal 9"


def test_a_second_start_is_refused_while_one_lives(directory: Path) -> None:
    begin(spec_for(directory, os.getpid(), sleepers("a")))
    with pytest.raises(UnavailableError, match=f"run by process {os.getpid()}"):
        refuse_second(directory)


def test_mounts_are_found_deepest_first_and_only_below() -> None:
    text = (
        "22 1 0:20 / / rw - ext4 /dev/vda rw\n"
        "30 22 0:30 / /w/run/hosts rw - tmpfs tmpfs rw\n"
        "31 30 0:31 / /w/run/hosts/gpu\\04001/root rw - overlay overlay rw\n"
        "32 22 0:32 / /w/running rw - tmpfs tmpfs rw\n"
    )
    assert mounts_below(Path("/w/run"), text) == ["/w/run/hosts/gpu 01/root", "/w/run/hosts"]


# A controller that forks in the very moment of its end, before anybody can have seen the fork.
_FORKS_AND_DIES = """
import os, signal, sys, time
ready, go = sys.argv[1:]
open(ready, "w").close()
while not os.path.exists(go):
    time.sleep(0.005)
child = os.fork()
if not child:
    time.sleep(300)
    os._exit(0)
with open(ready, "w") as out:
    out.write(str(child))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_forked_in_the_moment_of_the_end_ends_too_and_strangers_do_not(directory: Path) -> None:
    ready, go = directory / "ready", directory / "go"
    words = [sys.executable, "-c", _FORKS_AND_DIES, str(ready), str(go)]
    parent = subprocess.Popen(words, start_new_session=True)
    # The same words in another session, and other words in the same session: neither is a fork of the controller.
    twin = subprocess.Popen([*words[:3], str(directory / "other"), str(directory / "never")], start_new_session=True)
    eventually(ready.exists)
    stranger = subprocess.Popen(SLEEPER, preexec_fn=lambda: os.setpgid(0, 0))
    state = begin(spec_for(directory, parent.pid, sleepers("api")))
    go.touch()
    parent.wait(10)
    eventually(lambda: ready.read_text().strip())
    child = int(ready.read_text())
    eventually(lambda: gone(state))
    eventually(lambda: identify(child) is None)
    assert twin.poll() is None and stranger.poll() is None
    for process in (twin, stranger):
        process.kill()
        process.wait()


def test_only_a_late_fork_of_that_very_program_and_session_is_an_orphan() -> None:
    program = "import os, time; os.fork(); time.sleep(300)"
    parent = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    eventually(lambda: descendants(parent.pid))
    (child,) = descendants(parent.pid)
    origin = lineage(parent.pid)
    assert origin is not None and origin == lineage(child.pid)
    parent.kill()
    parent.wait()
    assert orphans(origin, child.start_ticks) == {child}
    assert orphans(origin, child.start_ticks + 1) == set()
    assert orphans(replace(origin, session=origin.session + 1), 0) == set()
    assert orphans(replace(origin, words=b"other"), 0) == set()
    kill_all([child])


def test_the_same_command_that_somebody_else_started_is_no_orphan() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(301)")
    parent = subprocess.Popen(command)
    origin = eventually(lambda: lineage(parent.pid))
    starts = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    somebody = subprocess.Popen([sys.executable, "-c", starts, *command])
    eventually(lambda: any(lineage(child.pid) == origin for child in descendants(somebody.pid)))
    parent.kill()
    parent.wait()
    assert orphans(origin, 0) == set()
    kill_all(descendants(somebody.pid))
    somebody.wait(10)
