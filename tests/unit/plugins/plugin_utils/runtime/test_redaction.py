# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets in text and in structured data are masked; what only looks like one stays."""

from __future__ import annotations

import json
import subprocess
import sys
from time import process_time

import pytest
from secret_kinds import KINDS, Planted, leaked

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime import redaction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import (
    MASK,
    Late,
    is_secret_key,
    redact,
    redact_data,
    redact_settings,
    with_secrets,
)

SECRET = "CANARY"
TEXTS = [
    "helm --password CANARYx --user bob",
    '["--password", "CANARY x"]',
    "--api-key=CANARY",
    "curl -u bob:CANARY http://host",
    "tls.key: CANARY",
    ".dockerconfigjson: CANARY",
    '{"auths": {"nvcr.io": {"auth": "CANARY"}}}',
    "redis://:CANARY@host:6379",
    "postgres://bob:CAN@CANARY@host/db",
    "https://CANARY@host/path",
    "AKIACANARYCANARY1234",
    "glpat-CANARY12345678901234",
    "github_pat_CANARY1234567890123",
    "xoxb-CANARY-1234567890-abc",
    "hf_CANARYCANARYCANARY",
    "private_key: CANARY",
    "passphrase=CANARY",
    "secretAccessKey: CANARY",
    "aws_secret_access_key = CANARY",
    "example.com/password: CANARY",
    "dbPassword=x CANARY",
    "password: my CANARY, and CANARY",
    "password: 'x, CANARY'",
    '"password": "x \\" CANARY"',
    '{\\"password\\": \\"x CANARY\\"}',
    "password: |\n  CANARY\n  key: CANARY\nother: kept",
    "password: >-\n    CANARY\n\n    CANARY\nother: kept",
    "token:\n  CANARY\nother: kept",
    "pass\x1b[31mword\x1b[0m: CANARY",
    "-----BEGIN PRIVATE KEY-----\nCANARY",
    "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
    "MIIEowIBAAKCAQEACANARY\nCANARYabc==\n-----END RSA PRIVATE KEY-----\nkept",
    '{"name": "HF_TOKEN", "value": "CANARY"}',
    "- name: HF_TOKEN\n  value: CANARY",
    "Authorization: Token CANARY",
    "X-Api-Key: CANARY",
    "client-key-data: CANARY",
]
# As tools, clouds and configuration files print them (their own documentation; probes of a review of this net).
TEXTS += [
    "Cookie: sid=CANARY",
    "Set-Cookie: session=CANARY; Path=/; HttpOnly",
    "https://x.blob.core.windows.net/c?sv=2024&sig=CANARY%3D",
    "https://b.s3.amazonaws.com/k?X-Amz-Credential=CANARY/20261128&X-Amz-Signature=CANARY",
    "SharedAccessSignature=sr=x&sig=CANARY&se=1",
    "Endpoint=sb://x/;SharedAccessKey=CANARY",
    'Authorization: Digest username="bob", response="CANARY"',
    "pwd=CANARY",
    "db_pass=CANARY",
    "PASS=CANARY",
    "BMC_PW=CANARY",
    "SLURM_JWT=CANARY",
    "tool --registry-pass CANARY",
    "ipmitool -I lanplus -H 10.0.0.1 -U admin -P CANARY chassis status",
    "docker login -u bob -p CANARY nvcr.io",
    "kubeadm bootstrap-token CANARY.0123456789",
    "<Password>CANARY</Password>",
    '<UserPassword type="text">CANARY</UserPassword>',
    "credential=CANARY",
    "credentials=CANARY",
    "_auth=CANARY",
    "psk=CANARY",
    "PresharedKey = CANARY=",
    "bindpw CANARY",
    "ldap_default_authtok = CANARY",
    "JWT=CANARY",
    "MUNGE_KEY=CANARY",
    "license_key: CANARY",
    "rocommunity CANARY",
    "curl -uadmin:CANARY https://host/redfish/v1",
    "https://hooks.slack.com/services/T0000/B0000/CANARY",
    "https://discord.com/api/webhooks/123456789/CANARY",
    "sk_live_CANARY0123456789",
    "SG.CANARY0123456789abcdef.CANARY0123456789abcdef",
    "ya29.CANARY0123456789abcdef",
    "pypi-CANARY0123456789abcdef",
    "AGE-SECRET-KEY-1CANARY0123456789ABCDEF",
    "password%3DCANARY",
    "PASSWORD\tCANARY",
    "pass\u200bword: CANARY",
]
KEPT = [
    "PWD=/root OLDPWD=/home/bob",
    "pass=12 fail=0",
    "PASS: test_all_reduce",
    "| Deployment | Pass |",
    "request_sock_TCP: Possible SYN flooding on port 8000. Sending cookies.",
    "nfs: server storage not responding, cookie 0x12",
    "<ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>",
    "ibv_devinfo: node_guid: 0002:c903:00e4:1234",
    "NCCL INFO bootstrap: Using eth0:10.0.0.1<0>",
    "systemd[1]: Started Login Service.",
    "snmpd: community strings are read from /etc/snmp",
    "open /etc/ssl/tls.key: no such file or directory",
    "Total generated tokens:  12345",
    '{"token": 5, "password": null, "a": [1]}',
    "max_tokens=12 tokenizer=auto",
    "token_secret: models/hub/token",
    "secretName: hub",
    "https://registry:5000/nvidia/cuda@sha256:abcdef",
    "nvidia/cuda@sha256:0123456789abcdef",
    "GPU 00000000:18:00.0: key: none",
    "the pod's image pull secret is not there",
    "disk-0123456789abcdef0123",
    # Descriptions of cert-manager's and Prometheus' definitions, values of charts (shared/crds, shared/upstream).
    "Requested basic constraints isCA value.",
    "basicAuth defines the Basic Authentication credentials used by the",
    "automountServiceAccountToken: true\nport: 1",
    "service_key: gpu",
    "awk '{print $1$2}' $5",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_in_text_is_masked(text: str) -> None:
    clean = redact(text)
    assert SECRET not in clean and MASK in clean
    assert ("kept" in text) == ("kept" in clean)
    assert redact(clean) == clean


@pytest.mark.parametrize("planted", KINDS, ids=lambda planted: planted.kind)
def test_a_secret_of_every_kind_is_masked_wherever_it_stands(planted: Planted) -> None:
    text = planted.text
    block = "data:\n  file: |\n" + "".join(f"    {line}\n" for line in text.splitlines())
    inner = json.dumps({"message": text})
    for around in (text, f"before\n{text}\nafter", block, inner, json.dumps({"line": inner})):
        clean = redact(around)
        assert leaked(clean) == [] and MASK in clean
        assert redact(clean) == clean


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [*TEXTS, *KEPT, "eyJhbGciOi.eyJzdWIiOiI.abc", "Bearer abcdefgh12", "npm_" + "a" * 36])
def test_the_words_that_are_looked_for_first_change_nothing(text: str) -> None:
    # A letter beyond ASCII lets every rule run.
    assert redact(f"\u00e9\n{text}") == f"\u00e9\n{redact(text)}"


@pytest.mark.parametrize("text", [*TEXTS, *KEPT])
@pytest.mark.parametrize("around", ["", "a token of many. ", "key"])
def test_a_text_that_is_looked_at_around_its_mentions_is_masked_as_one_that_is_searched_whole(
    text: str, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = "step 1 loss 2.5\n" * 400
    whole = f"{rest}{around}{text}\n{rest}{around}\n{text}"
    found = redact(whole)
    monkeypatch.setattr(redaction, "_APART", len(whole) + 1)
    assert redact(whole) == found


def test_json_stays_json() -> None:
    text = json.dumps({"token": "a, b}", "n": 1, "nested": {"password": 'x"y', "tokens": 3}})
    assert json.loads(redact(text)) == {"token": MASK, "n": 1, "nested": {"password": MASK, "tokens": 3}}


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "-", "snmpget -c ", "machine a login b ", "mysql -u ", "$6$", "name: x_pass\n", "bot12345678:",
     "/", "\\", "--a ", "token: ", 'password:"', "password ", "eyJ-", "://a:", "-----BEGIN ",
     "-----END PRIVATE KEY-----", "token:\n  ", "name: token ", " ,a", "\x1b[", "AAAA\n", "password: 'x \\\" "],
)  # fmt: skip
def test_the_cost_of_redaction_is_linear(unit: str) -> None:
    def cost(length: int) -> float:
        text, begun = (unit * length)[:length], process_time()
        redact(text)
        return process_time() - begun

    cost(1000)
    # Twice as long costs twice as much, and four times in a quadratic net; short times say nothing.
    assert cost(200_000) < max(3.2 * cost(100_000), 0.2)


@pytest.mark.parametrize(
    ("key", "secret"),
    [("adminPassword", True), ("HF_TOKEN", True), ("tls.key", True), ("apiKey", True), ("NGC_API_KEY", True),
     (".dockerconfigjson", True), ("client-key-data", True), ("AWS_SECRET_ACCESS_KEY", True), ("secrets", True),
     ("secretName", False), ("existingSecret", False), ("imagePullSecrets", False), ("token_secret", False),
     ("tokenizer", False), ("key", False), ("passwordFile", False), ("monkey", False)],
)  # fmt: skip
def test_keys_of_secrets_are_known_by_their_last_words(key: str, secret: bool) -> None:
    assert is_secret_key(key) is secret


def test_structured_data_is_masked_by_key_and_by_look() -> None:
    data = {
        "adminPassword": "CANARY",
        "pin": {"password": 123456},
        "max_tokens": 512,
        "env": [{"name": "HF_TOKEN", "value": "CANARY"}, {"name": "MODE", "value": "fast"}],
        "args": ["--api-key", "CANARY", "--port", "80"],
        "credentials": {"user": "CANARY", "name": "hub"},
        "url": "https://bob:CANARY@host",
        "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"x": "CANARY"}},
        "volume": {"secret": {"secretName": "hub", "optional": True}},
        "config": "user: bob\npassword: CANARY\n",
        "empty": {"token": ""},
    }
    clean = redact_data(data)
    assert SECRET not in json.dumps(clean)
    assert clean["max_tokens"] == 512 and clean["pin"] == {"password": MASK}
    assert clean["env"][1] == {"name": "MODE", "value": "fast"} and clean["args"][2:] == ["--port", "80"]
    assert clean["volume"] == data["volume"] and clean["object"]["metadata"] == {"name": "s"}
    assert clean["empty"] == {"token": ""}
    assert redact_data(clean) == clean


def test_of_an_environment_only_what_is_known_to_be_plain_is_kept() -> None:
    """`BMC_PW` and `SLURM_JWT` stood in clear in settings.json; a site may call its secret anything."""
    env = {"NCCL_ALGO": "Ring", "LD_LIBRARY_PATH": "/x", "BMC_PW": SECRET, "SLURM_JWT": SECRET, "OUR_STUFF": SECRET}
    kept = redact_settings({"fabric_validation": {"env": env, "image": "x"}})["fabric_validation"]
    assert SECRET not in json.dumps(kept) and kept["image"] == "x"
    assert (kept["env"]["NCCL_ALGO"], kept["env"]["LD_LIBRARY_PATH"]) == ("Ring", "/x")
    assert with_secrets(kept, {"env": env, "image": "x"}, "p", "")["env"] == env


def test_what_was_masked_comes_back_from_what_is_stated() -> None:
    stated = {"server": {"env": {"HF_TOKEN": "CANARY"}, "arguments": ["--api-key", "CANARY"], "port": 80}}
    assert with_secrets(redact_data(stated), stated, "", "") == stated


@pytest.mark.parametrize("stated", [{}, {"server": {"url": "https://another/host"}}, {"server": None}])
def test_a_masked_value_that_is_not_stated_is_refused(stated: object) -> None:
    saved = redact_data({"server": {"url": "https://bob:CANARY@host"}})
    with pytest.raises(InputError) as error:
        with_secrets(saved, stated, "gpufleet_settings", "state it")
    assert "gpufleet_settings.server.url" in str(error.value)


def test_no_form_is_compiled_before_a_text_has_its_words() -> None:
    """Compiling all of them is a tenth of a short command."""
    program = (
        f"from {redact.__module__} import FORMS, redact\n"
        "def count():\n    return sum('_compiled' in vars(form) for form, _, _ in FORMS)\n"
        "redact('plain words of a log, gpu01: 8 GPUs, driver 580.65')\nplain = count()\n"
        "redact('GenieKey CANARY-CANARY')\nprint(len(FORMS), plain, count())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    forms, plain, one = map(int, told.stdout.split())
    assert forms > 30 and (plain, one) == (0, 1)
    late = Late(r"GENIE\d", needs="genie")
    assert not late.is_in("GENIE1") and "_compiled" not in vars(late)
    assert Late(r"genie\d", needs="genie").is_in("a genie1")
