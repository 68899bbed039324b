# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that measures the shared volume, with the real fio: what it writes, finds wrong, and leaves behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.run import (
    StorageReading,
    read_storage,
    storage_job,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import (
    KEY,
    PATTERNS,
    StorageSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.storage.programs import ensure_fio
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    storage_settings,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

SETTINGS = checked_settings(StorageSettings, KEY, storage_settings(1))
HOST = BenchmarkHost(name="gpu01", node="gpu01", sku="dgx-h100")


@dataclass(frozen=True)
class Volume:
    """A directory in the place of the shared volume, and a command `fio` on PATH."""

    place: Path
    programs: Path

    def start(self, settings: StorageSettings = SETTINGS, **more: str) -> subprocess.Popen[str]:
        spec = storage_job("fio-1-1", HOST, settings, "aa11")
        path = f"{self.programs}:{os.environ['PATH']}"
        env = {**os.environ, **spec.env, "STORAGE_VOLUME": str(self.place), "PATH": path, **more}
        return subprocess.Popen(
            list(spec.command), env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def read(self, settings: StorageSettings = SETTINGS, **more: str) -> StorageReading:
        log = self.start(settings, **more).communicate(timeout=60)[0]
        return read_storage("succeeded", "", log, settings)

    def left(self) -> list[str]:
        return [path.name for path in self.place.rglob("*") if path.name != settings_directory()]


def settings_directory() -> str:
    return SETTINGS.directory.rpartition("/")[2]


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return make_volume(tmp_path, 'exec "$FIO" "$@"')


def make_volume(tmp_path: Path, then: str) -> Volume:
    found = ensure_fio(default_cache(os.environ), Progress(print))
    place, programs = tmp_path / "volume", tmp_path / "programs"
    place.mkdir()
    programs.mkdir()
    script = f"#!/bin/sh\nexport LD_LIBRARY_PATH='{found.libraries}'\nFIO='{found.path}'\n{then}\n"
    (programs / "fio").write_text(script)
    (programs / "fio").chmod(0o755)
    return Volume(place, programs)


def test_a_whole_run_has_every_figure_and_leaves_nothing(volume: Volume) -> None:
    found = volume.read()
    assert found.problem is None and set(found.patterns) == set(PATTERNS)
    assert volume.left() == []


def test_a_rate_that_is_stated_is_kept(volume: Volume) -> None:
    found = volume.read(replace(SETTINGS, rate_mib_s=8.0, size_mib=4))
    assert found.problem is None
    # The first block of four is not waited for.
    assert all(item.mib_s < 12 for item in found.patterns.values()), found.patterns


# Between the two jobs, as a bad cable, memory or disk would.
SPOIL = """
"$FIO" --section=sequential-write "$@" || exit 1
printf spoiled | dd of="$FIO_DIRECTORY/data.1" bs=1 seek=500000 conv=notrunc 2>/dev/null
mv report first
"$FIO" --section=sequential-read --section=random-read --section=random-write "$@"
code=$?
python3 - <<'END'
import json
texts = [open(name).read() for name in ("first", "report")]
whole = [json.loads(text[text.index("{"):]) for text in texts]
whole[1]["jobs"] = whole[0]["jobs"] + whole[1]["jobs"]
open("report", "w").write(texts[1][:texts[1].index("{")] + json.dumps(whole[1]))
END
exit $code
"""


def test_a_block_that_comes_back_otherwise_is_found_by_the_real_program(tmp_path: Path) -> None:
    volume = make_volume(tmp_path, SPOIL)
    found = volume.read()
    assert found.problem is not None and (found.problem.cause, found.problem.bad) == ("data-corrupt", True), found
    assert "verify failed" in found.problem.text and volume.left() == []


def test_a_pod_that_is_stopped_leaves_nothing(volume: Volume) -> None:
    run = volume.start(replace(SETTINGS, seconds=30.0))
    try:
        eventually(lambda: bool(list(volume.place.rglob("data.0"))))
        began = time.monotonic()
        run.terminate()
        log = run.communicate(timeout=10)[0]
    finally:
        run.kill()
    assert run.returncode == 143 and time.monotonic() - began < 10
    found = read_storage("succeeded", "", log, SETTINGS)
    assert found.problem is not None and found.problem.cause == "output-incomplete"
    assert volume.left() == []


@pytest.mark.parametrize(
    ("spoil", "more", "cause"),
    [
        (lambda volume: None, {"STORAGE_NEEDED_KIB": str(1 << 50)}, "volume-full"),
        (lambda volume: (volume.place / SETTINGS.directory).write_text("a file"), {}, "volume-refused"),
        (lambda volume: (volume.programs / "fio").write_text("#!/bin/sh\nexit 127\n"), {}, "fio-failed"),
    ],
)  # fmt: skip
def test_what_keeps_it_from_measuring_is_said(
    volume: Volume, spoil: Callable[[Volume], object], more: dict[str, str], cause: str
) -> None:
    spoil(volume)
    found = volume.read(SETTINGS, **more)
    assert found.problem is not None and (found.problem.cause, found.problem.bad) == (cause, False)


def test_what_a_killed_run_left_goes_a_day_later_and_what_runs_now_stays(volume: Volume) -> None:
    base = volume.place / SETTINGS.directory / HOST.node
    for name, age_s in (("gpufleet-fio-old", 90_000), ("gpufleet-fio-now", 60), ("users-own", 900_000)):
        (base / name).mkdir(parents=True)
        then = time.time() - age_s
        os.utime(base / name, (then, then))
    assert volume.read().problem is None
    assert sorted(path.name for path in base.iterdir()) == ["gpufleet-fio-now", "users-own"]
