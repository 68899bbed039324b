# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets in structured data: settings, Helm values and environments are masked by key before they are written.

What was masked is given back in memory, from what people stated, to the tasks that need it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..outcome.errors import InputError
from .redaction import redact
from .secret_forms import MASK

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PASSWORD = re.compile("password|passwd|passphrase|passcode|pwd")
_LAST = re.compile(
    f"{_PASSWORD.pattern}|pass|pw|bindpw|rootpw|psk|jwt|authtok|rocommunity|rwcommunity|secret|token|apikey|credential"
    "|dockerconfigjson|dockercfg|htpasswd|auth|authorization|cookie"
)
_KEY_OF = re.compile(
    "api|access|private|secret|account|client|tls|encryption|signing|ssh|license|auth|master|storage|shared|preshared"
    "|munge|bootstrap|ngc|app|application|routing|service|fernet"
)
# Variables of an environment are a site's own words, so a list of what is secret is never whole: saved is what tells
# how a program runs, by the beginning of its name, and of any other variable only that it is there.
_ENVIRONMENTS = frozenset({"env", "environment", "extra_env", "extraEnv"})
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_PLAIN_VARIABLE = re.compile(
    r"(?:NCCL|RCCL|UCX|UCC|FI|OMPI|OPAL|PMIX|PRTE|SHARP|HCOLL|RDMAV|IBV|MLX\d?|EFA|AWS_OFI|OFI|CUDA|CUBLAS|CUDNN|NVIDIA"
    r"|NVSHMEM|NVTE|OMP|GOMP|KMP|MKL|MALLOC|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|XLA|JAX|TF|TP|VLLM|SGLANG|TRANSFORMERS"
    r"|HF_HUB|HF_HOME|HF_DATASETS|TOKENIZERS|GLOO|LD|PYTHON|LC|XDG|HEALTH_CHECK|SLURM)(?:_[A-Z0-9_]+)?"
    r"|PATH|HOME|LANG|TZ|TMPDIR|HOSTNAME|USER|SHELL|TERM|PWD|PYTHON[A-Z]+|(?:HTTPS?|NO|ALL)_PROXY"
)
# What only names a Secret.
_REFERENCES = frozenset({("existing", "secret"), ("pull", "secret"), ("token", "secret")})
_NAMING = re.compile(
    "name|namespace|key|optional|kind|apiversion|secretname|enabled|create|type|valuefrom|secretkeyref", re.IGNORECASE
)
# What may follow the word that says what it is: `client-key-data`.
_ENCODED = re.compile("data|b64|base64|value")


def is_secret_key(key: str) -> bool:
    """Tell whether a value under that key is a secret: `adminPassword`, `HF_TOKEN`, `tls.key`; not `secretName`."""
    words = _words(key)
    if len(words) > 1 and _ENCODED.fullmatch(words[-1]):
        words.pop()
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    single = last.removesuffix("s") if last.endswith("s") and not _LAST.fullmatch(last) else last
    if (before, single) in _REFERENCES:
        return False
    return bool(_LAST.fullmatch(single) or (single == "key" and _KEY_OF.fullmatch(before)))


def _words(key: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(key)]


def redact_data(value: Any) -> Any:
    """Return plain data (mappings, lists, scalars) with every secret masked, by its key or by its look."""
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return _list(value)
    return redact(value) if isinstance(value, str) else value


def _list(items: Sequence[Any]) -> list[Any]:
    """Return the entries masked; in an argument list also the one after `--api-key`."""
    return [
        _masked(entry, "") if number and _is_secret_flag(items[number - 1]) else redact_data(entry)
        for number, entry in enumerate(items)
    ]


def _is_secret_flag(word: Any) -> bool:
    return isinstance(word, str) and word.startswith("-") and "=" not in word and is_secret_key(word)


def _mapping(data: Mapping[Any, Any]) -> dict[Any, Any]:
    if data.get("kind") == "Secret" and "apiVersion" in data:
        hidden = {key: _masked(data[key], key) for key in ("data", "stringData") if key in data}
        return {key: hidden.get(key, redact_data(value)) for key, value in data.items()}
    if isinstance(data.get("name"), str) and "value" in data and is_secret_key(data["name"]):
        return {
            key: _masked(value, data["name"]) if key == "value" else redact_data(value) for key, value in data.items()
        }
    return {
        key: _masked(value, str(key)) if is_secret_key(str(key)) else redact_data(value) for key, value in data.items()
    }


def redact_settings(value: Any) -> Any:
    """Return what a site states, with every secret masked, and of environments all that is not known to be plain."""
    return redact_data(_plain_environments(value))


def _plain_environments(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain_environments(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: {name: _variable(str(name), text) for name, text in entry.items()}
        if key in _ENVIRONMENTS and isinstance(entry, Mapping)
        else _plain_environments(entry)
        for key, entry in value.items()
    }


def _variable(name: str, value: Any) -> Any:
    if _PLAIN_VARIABLE.fullmatch(name) or not _VARIABLE.fullmatch(name):
        return _plain_environments(value)
    return MASK if isinstance(value, str) and value else value


def _masked(value: Any, key: str) -> Any:
    """Return what stands under a secret key, masked; names of Secrets and keys in them stay."""
    if isinstance(value, str):
        return MASK if value else value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        # `max_token: 512` is a number, a password of digits is none.
        return MASK if any(_PASSWORD.fullmatch(word) for word in _words(key)) else value
    if isinstance(value, Mapping):
        return {
            name: redact_data(entry) if _NAMING.fullmatch(str(name)) else _masked(entry, str(name))
            for name, entry in value.items()
        }
    return [_masked(entry, key) for entry in value]


def holds_mask(value: Any) -> bool:
    """Tell whether something in the data was masked."""
    if isinstance(value, Mapping):
        return any(holds_mask(entry) for entry in value.values())
    if isinstance(value, list | tuple):
        return any(holds_mask(entry) for entry in value)
    return isinstance(value, str) and MASK in value


def with_secrets(saved: Any, stated: Any, place: str, hint: str) -> Any:
    """Return saved data with what was masked in it put back from what people stated, place by place.

    Args:
        saved: data as it was written.
        stated: the same structure with the secrets, or the part of it that people stated.
        place: where the data stands, for the error.
        hint: what to do where a secret is not stated.

    Raises:
        InputError: a value was masked, and what is stated now does not give the same masked value.
    """
    if not holds_mask(saved):
        return saved
    if isinstance(saved, Mapping):
        given = stated if isinstance(stated, Mapping) else {}
        return {
            key: with_secrets(entry, given.get(key), f"{place}.{key}" if place else str(key), hint)
            for key, entry in saved.items()
        }
    if isinstance(saved, list | tuple):
        items: Sequence[Any] = stated if isinstance(stated, list | tuple) and len(stated) == len(saved) else ()
        return [
            with_secrets(entry, items[number] if items else None, f"{place}[{number}]", hint)
            for number, entry in enumerate(saved)
        ]
    if stated is None or (isinstance(stated, str) and saved not in (MASK, redact(stated))) or holds_mask(stated):
        raise InputError(place, "is a secret, which is not saved with a run, and it is not stated now.", hint)
    return stated
