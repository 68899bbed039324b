# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From options, K8S_AUTH_* variables, kubeconfig files or a pod's service account to a connection."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...outcome.errors import BringupError, InputError
from ...runtime.process import lasting_memory_file

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TRUE = {"1", "true", "yes", "on"}
_FILES = ("ssl_ca_cert", "cert_file", "key_file")
_EMBEDDED = ("certificate-authority", "client-certificate", "client-key")
_STATED = (*_FILES, "host", "verify_ssl", "tls_server_name", "proxy")
# Certificates and keys of kubeconfigs, by content. There are as many as contexts that this process uses.
_IN_MEMORY: dict[bytes, str] = {}
# The official client keeps the names of its files in one place for all its configurations.
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach a cluster. Empty fields are taken from the kubeconfig. `api_key` is never shown.

    Names and environment variables (`K8S_AUTH_KUBECONFIG`, ...) are those of kubernetes.core.
    """

    kubeconfig: str = ""
    context: str = ""
    host: str = ""
    api_key: str = ""
    ca_cert: str = ""
    client_cert: str = ""
    client_key: str = ""
    validate_certs: bool | None = None
    proxy: str = ""
    impersonate_user: str = ""

    def __repr__(self) -> str:
        """Return the settings without the key."""
        return f"Connection(kubeconfig={self.kubeconfig!r}, context={self.context!r}, host={self.host!r})"


_ENVIRONMENT = {
    "kubeconfig": "K8S_AUTH_KUBECONFIG",
    "context": "K8S_AUTH_CONTEXT",
    "host": "K8S_AUTH_HOST",
    "api_key": "K8S_AUTH_API_KEY",
    "ca_cert": "K8S_AUTH_SSL_CA_CERT",
    "client_cert": "K8S_AUTH_CERT_FILE",
    "client_key": "K8S_AUTH_KEY_FILE",
    "proxy": "K8S_AUTH_PROXY",
    "impersonate_user": "K8S_AUTH_IMPERSONATE_USER",
}


def connection_from(options: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Connection:
    """Return the connection for these options. Options that are empty come from the environment.

    Raises:
        InputError: `K8S_AUTH_VERIFY_SSL` is not a boolean.
    """
    env = os.environ if environ is None else environ
    values = {field: str(options.get(field) or env.get(variable, "")) for field, variable in _ENVIRONMENT.items()}
    verify = options.get("validate_certs")
    if verify is None and env.get("K8S_AUTH_VERIFY_SSL"):
        verify = env["K8S_AUTH_VERIFY_SSL"].lower() in _TRUE
    return Connection(validate_certs=verify, **values)


def _file(path: str, what: str) -> str:
    full = Path(path).expanduser()
    if not full.is_file():
        raise InputError(f"{what} {path}", "no such file.", f"correct {what} (K8S_AUTH_* or gpufleet_kubeconfig)")
    return str(full)


def load_configuration(connection: Connection) -> Any:
    """Return the official client's Configuration for a connection.

    Raises:
        InputError: the kubeconfig is missing or broken, or its context does not exist.
    """
    from kubernetes.client import Configuration

    configuration = Configuration()
    # Configuration() reads proxy variables; a kubeconfig's own proxy-url overrides them below.
    if not connection.host:
        _load_context(connection, configuration)
    _overlay(connection, configuration)
    configuration.retries = _retries()
    return configuration


def _retries() -> Any:
    from urllib3.util import Retry

    # One more try for a connection that died in the pool. All other retries are decided in this package.
    return Retry(total=None, connect=1, read=0, redirect=0, status=0, other=0)


def _load_context(connection: Connection, configuration: Any) -> None:
    from kubernetes.config import load_incluster_config, load_kube_config_from_dict
    from kubernetes.config.config_exception import ConfigException

    named = connection.kubeconfig or os.environ.get("KUBECONFIG", "")
    try:
        if not named and not Path("~/.kube/config").expanduser().is_file() and _SERVICE_ACCOUNT.is_file():
            load_incluster_config(client_configuration=configuration)
            return
        if connection.kubeconfig:
            named = _file(connection.kubeconfig, "kubeconfig")
        with _LOADING, _passing_directory() as passing:
            load_kube_config_from_dict(
                _with_files_in_memory(named, connection.context),
                context=connection.context or None,
                client_configuration=configuration,
                persist_config=False,
                temp_file_path=str(passing),
            )
            _keep_in_memory(configuration, passing)
        _renew_token_alone(configuration)
    except BringupError:
        raise
    except ConfigException as error:
        hint = "set gpufleet_kubeconfig or K8S_AUTH_KUBECONFIG; list contexts: kubectl config get-contexts"
        raise InputError(f"kubeconfig {named or '~/.kube/config'}", f"{str(error).rstrip('.')}.", hint) from None
    except Exception as error:  # noqa: BLE001
        # The loader raises whatever a broken file causes (YAML errors, KeyError, binascii.Error).
        reason = f"not a valid kubeconfig ({type(error).__name__})."
        raise InputError(f"kubeconfig {named}", reason, "export it again from the cluster") from None


@contextmanager
def _passing_directory() -> Iterator[Path]:
    """Yield a directory for files of the client, which writes one only for the output of a user's exec plugin."""
    import secrets

    passing = Path(tempfile.gettempdir(), f"gpufleet-{secrets.token_hex(8)}")
    try:
        yield passing
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def _with_files_in_memory(named: str, context: str) -> Any:
    """Return the merged kubeconfig, with the certificates and keys of its context as files in memory.

    The client would write them to disk, where they stay if this process is killed at that moment.

    Raises:
        ConfigException: there is no kubeconfig.
    """
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger

    merged = KubeConfigMerger(named or KUBE_CONFIG_DEFAULT_LOCATION).config
    if merged is None:
        raise ConfigException("Invalid kube-config file. No configuration found.")
    # The client itself reports a name that does not exist.
    wanted = _named(merged, "contexts", context or merged.value.get("current-context", "")).get("context") or {}
    for kind in ("cluster", "user"):
        found = _named(merged, f"{kind}s", wanted.get(kind, "")).get(kind) or {}
        for field in _EMBEDDED:
            if found.get(f"{field}-data"):
                found[field] = _in_memory(base64.b64decode(found.pop(f"{field}-data")))
    return merged


def _named(merged: Any, kind: str, name: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [getattr(entry, "value", entry) for entry in merged.value.get(kind) or ()]
    return next((entry for entry in entries if entry.get("name") == name), {})


def _keep_in_memory(configuration: Any, passing: Path) -> None:
    """Replace files that the client wrote into the temporary directory by files in memory.

    The client removes its files only when Python exits normally, which a forked worker and a killed process do not:
    keys would stay in /tmp.
    """
    for attribute in _FILES:
        path = Path(getattr(configuration, attribute) or "")
        if path.parent == passing:
            setattr(configuration, attribute, _in_memory(path.read_bytes()))


def _renew_token_alone(configuration: Any) -> None:
    """Let the client renew only the token before a request.

    It would set everything from the kubeconfig again: files that are gone, and what options have replaced.
    """
    newer = configuration.refresh_api_key_hook
    if newer is None:
        return

    def renew(configuration: Any) -> None:
        kept = {name: getattr(configuration, name, None) for name in _STATED}
        newer(configuration)
        for name, value in kept.items():
            setattr(configuration, name, value)
        configuration.refresh_api_key_hook = renew

    configuration.refresh_api_key_hook = renew


def _in_memory(content: bytes) -> str:
    """Return the path of a file in memory with this content. It lasts until this process ends."""
    if content not in _IN_MEMORY:
        _IN_MEMORY[content] = f"/proc/self/fd/{lasting_memory_file(content)}"
    return _IN_MEMORY[content]


def _overlay(connection: Connection, configuration: Any) -> None:
    if connection.host:
        configuration.host = connection.host.rstrip("/")
    if connection.api_key:
        # Release 31 of the client reads `authorization` alone, later ones `BearerToken` first.
        configuration.api_key.update(dict.fromkeys(("authorization", "BearerToken"), f"Bearer {connection.api_key}"))
        # Otherwise the token of the context would be set again before every request.
        configuration.refresh_api_key_hook = None
    for field, attribute in (("ca_cert", "ssl_ca_cert"), ("client_cert", "cert_file"), ("client_key", "key_file")):
        value = getattr(connection, field)
        if value:
            setattr(configuration, attribute, _file(value, field))
    if connection.validate_certs is not None:
        configuration.verify_ssl = connection.validate_certs
    if connection.proxy:
        configuration.proxy = connection.proxy
