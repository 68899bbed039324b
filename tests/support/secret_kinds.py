# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of every kind that a GPU cluster has, as clouds, forges, tools and configuration files print them.

Shapes are those that the makers document; letters are drawn from the kind's name, so no secret is anybody's.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

_ALL = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits


@dataclass(frozen=True, slots=True)
class Planted:
    """A secret of one kind: the `text` that a tool prints, and the `secret` in it, which may be in no file."""

    kind: str
    text: str
    secret: str


# By kind: what is printed, `{}` where the secret is, and of how many of which letters that is.
_SHAPES: dict[str, tuple[str, int, str]] = {
    # Clouds.
    "aws-key-id": ("AWS_ACCESS_KEY_ID=AKIA{}", 16, _UPPER),
    "aws-secret": ("aws_secret_access_key = {}", 40, _ALL),
    "aws-session": ("AWS_SESSION_TOKEN={}", 80, _ALL),
    "azure-storage": ("DefaultEndpointsProtocol=https;AccountName=x;AccountKey={}==;EndpointSuffix=x", 86, _ALL),
    "azure-sas": ("https://x.blob.core.windows.net/c/f?sv=2022&sp=r&sig={}&se=1", 43, _ALL),
    "azure-application": ("the application's abc8Q~{} is used", 34, _ALL),
    "google-account": (
        '{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"}}', 60, _ALL
    ),
    "google-key": ("https://x/y?k=AIza{}", 35, _ALL),
    "google-oauth": ("ya29.{}", 60, _ALL),
    "databricks": ("dapi{}", 32, _HEX),
    "terraform-cloud": ("{}.atlasv1.abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789", 14, _ALL),
    "tailscale": ("tailscale up tskey-auth-{}-abcdef", 20, _ALL),
    "vault": ("hvs.{}", 90, _ALL),
    # Forges and registries.
    "github": ("ghp_{}", 36, _ALL),
    "github-fine": ("github_pat_{}", 60, _ALL),
    "gitlab": ("glpat-{}", 20, _ALL),
    "atlassian": ("ATATT3xFfGF0{}", 60, _ALL),
    "ngc": ("nvapi-{}", 64, _ALL),
    "hugging-face": ("hf_{}", 34, _ALL),
    "docker-hub": ("dckr_pat_{}", 27, _ALL),
    "docker-config": ('{{"auths":{{"nvcr.io":{{"username":"$oauthtoken","auth":"{}"}}}}}}', 40, _ALL),
    "docker-login": ("docker login -u bob -p {} nvcr.io", 30, _ALL),
    "artifactory": ("curl -H X-JFrog-Art-Api:AKCp{}", 69, _ALL),
    "npm": ("//registry.example.org/:_authToken={}", 36, _ALL),
    "pypi": ("pypi-AgEIcHlwaS5vcmc{}", 60, _ALL),
    # Services that a site calls.
    "slack": ("xoxb-{}", 40, _ALL),
    "slack-hook": ("https://hooks.slack.com/services/T00000000/B00000000/{}", 24, _ALL),
    "teams-hook": ("https://x.webhook.office.com/webhookb2/{}", 36, _ALL),
    "telegram": ("https://api.telegram.org/bot123456789:{}/sendMessage", 35, _ALL),
    "pagerduty": ("routing_key: {}", 32, _HEX),
    "opsgenie": ("GenieKey {}", 36, _ALL),
    "grafana": ("glsa_{}_0a1b2c3d", 32, _ALL),
    "datadog": ("DD_APP_KEY={}", 40, _HEX),
    "openai": ("sk-proj-{}", 48, _ALL),
    "wandb-netrc": ("machine api.wandb.ai\n  login user\n  password {}\n", 40, _HEX),
    # Keys.
    "rsa": ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", 64, _ALL),
    "openssh": ("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----", 64, _ALL),
    "pgp": ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", 64, _ALL),
    "age": ("AGE-SECRET-KEY-1{}", 58, _UPPER),
    "wireguard": ("PrivateKey = {}=", 43, _ALL),
    "shadow": ("root:$6$salt${}:19000:0:99999:7:::", 86, _ALL),
    "htpasswd": ("admin:$2y$05${}", 53, _ALL),
    # URLs and headers.
    "url": ("https://bob:{}@h.example.org/x", 12, _ALL),
    "database-url": ("postgresql://u:{}@db:5432/x", 12, _ALL),
    "basic": ("authorization: basic {}", 24, _ALL),
    "bearer": ("Authorization: Bearer {}", 24, _ALL),
    "jwt": ("eyJhbGciOiJSUzI1NiJ9.{}.abcdefghijklmnop", 60, _ALL),
    "cookie": ("Set-Cookie: SESSION={}; Path=/", 32, _ALL),
    # Kubernetes.
    "kubeconfig": ("users:\n- name: x\n  user:\n    client-key-data: {}\n", 80, _ALL),
    "kubeadm-join": ("kubeadm join --control-plane --certificate-key {}", 64, _HEX),
    "k3s-join": ("K10{}::server:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 64, _HEX),
    "helm-value": ("adminPassword: {}", 12, _ALL),
    "pod-variable": ("- name: DB_PASS\n  value: {}", 12, _ALL),
    "pod-variable-json": ('{{"name":"S3_SECRET_KEY","value":"{}"}}', 12, _ALL),
    # Hosts.
    "ipmitool": ("ipmitool -I lanplus -H bmc -U admin -P {} sel list", 12, _ALL),
    "redfish": ('{{"UserName":"admin","Password":"{}"}}', 12, _ALL),
    "snmp": ("snmpwalk -v2c -c {} pdu01", 12, _ALL),
    "ldap": ("ldapsearch -x -D cn=a -w {} -b x", 12, _ALL),
    "redis-file": ("requirepass {}", 12, _ALL),
    "redis": ("redis-cli -a {} ping", 12, _ALL),
    "mysql": ("mysql -u root -p{} slurm_acct_db", 12, _ALL),
    "sshpass": ("sshpass -p {} ssh gpu01", 12, _ALL),
    "slurm": ("SLURM_JWT={}", 32, _ALL),
    "munge": ("MUNGE_KEY={}", 32, _ALL),
    "database-words": ("Server=x;User Id=sa;Pwd={};", 12, _ALL),
}  # fmt: skip


def _planted(kind: str) -> Planted:
    form, length, letters = _SHAPES[kind]
    drawn = random.Random(kind)
    # A digit within, as any secret of that length has.
    secret = "7" + "".join(drawn.choice(letters) for _letter in range(length - 1))
    return Planted(kind, form.format(secret), secret)


KINDS = tuple(_planted(kind) for kind in _SHAPES)


def leaked(text: str) -> list[str]:
    """Return the kinds of the secrets that stand in a text."""
    return [planted.kind for planted in KINDS if planted.secret in text]
