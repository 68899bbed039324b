# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates and keys of a kubeconfig: where they are while a run uses them, and what stays of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import ssl
import sys
import tempfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import (
    Connection,
    load_configuration,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.pki import (
    make_pki,
    write_kubeconfig,
)

PROGRAM = """
import json, pathlib
read = lambda name: (pathlib.Path({pki!r}) / name).read_text()
status = {{"clientCertificateData": read("admin.crt"), "clientKeyData": read("admin.key")}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig that has certificate and key within, as most have."""
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, make_pki(tmp_path / "pki"), "admin", 6443)
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files of this process."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_no_key_of_a_kubeconfig_stays_on_disk_when_a_worker_ends(kubeconfig: Path, temporary: Path) -> None:
    """A worker of Ansible ends without Python's own clean-up, and a killed one without any."""

    def work() -> None:
        _use(load_configuration(Connection(kubeconfig=str(kubeconfig))))
        os._exit(7)

    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    worker.join(30)
    assert worker.exitcode == 7
    assert list(temporary.iterdir()) == []


def test_no_key_of_a_kubeconfig_is_on_disk_even_for_a_moment(
    kubeconfig: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is killed in that moment removes nothing."""
    monkeypatch.setattr(tempfile, "mkstemp", None)
    monkeypatch.setattr(tempfile, "mkdtemp", None)
    configuration = load_configuration(Connection(kubeconfig=str(kubeconfig)))
    assert str(configuration.key_file).startswith("/proc/self/fd/")
    assert list(temporary.iterdir()) == []


def test_what_was_read_is_of_use_to_forks_and_when_it_is_read_again(kubeconfig: Path, temporary: Path) -> None:
    first, second = (load_configuration(Connection(kubeconfig=str(kubeconfig))) for _time in range(2))
    assert (first.cert_file, first.key_file) == (second.cert_file, second.key_file)
    worker = multiprocessing.get_context("fork").Process(target=_use, args=(first,))
    worker.start()
    worker.join(30)
    assert worker.exitcode == 0
    assert list(temporary.iterdir()) == []


def test_the_authority_of_a_server_is_still_known_when_a_token_was_looked_for_again(
    tmp_path: Path, kubeconfig: Path, temporary: Path
) -> None:
    plain = json.loads(kubeconfig.read_text())
    plain["users"][0]["user"] = {"token": "t"}
    kubeconfig.write_text(json.dumps(plain))
    configuration = load_configuration(Connection(kubeconfig=str(kubeconfig), validate_certs=False))
    for _time in range(3):
        assert configuration.auth_settings()["BearerToken"]["value"] == "Bearer t"
        assert Path(configuration.ssl_ca_cert).read_bytes() == (tmp_path / "pki" / "ca.crt").read_bytes()
        assert configuration.verify_ssl is False
    assert list(temporary.iterdir()) == []


def test_a_certificate_that_a_program_gives_stays_in_memory(tmp_path: Path, kubeconfig: Path, temporary: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\n" + PROGRAM.format(pki=str(tmp_path / "pki")))
    program.chmod(0o700)
    plain = json.loads(kubeconfig.read_text())
    words = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    plain["users"][0]["user"] = {"exec": words}
    kubeconfig.write_text(json.dumps(plain))
    configuration = load_configuration(Connection(kubeconfig=str(kubeconfig)))
    _use(configuration)
    assert list(temporary.iterdir()) == []


def test_files_that_a_kubeconfig_names_are_used_as_they_are(tmp_path: Path, kubeconfig: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("k")
    found = load_configuration(Connection(kubeconfig=str(kubeconfig), client_key=str(key)))
    assert found.key_file == str(key)


def _use(configuration: object) -> None:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)  # type: ignore[attr-defined]  # untyped
    context.load_cert_chain(configuration.cert_file, configuration.key_file)  # type: ignore[attr-defined]  # untyped
