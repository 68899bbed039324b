# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs of service accounts."""

from __future__ import annotations

from pathlib import Path

import yaml


def kubeconfig_of_account(admin: Path, name: str, namespace: str, target: Path) -> Path:
    """Write a kubeconfig like that of the administrator, whose user is a service account that is there."""
    from kubernetes import client, config

    core = client.CoreV1Api(config.new_client_from_config(str(admin)))
    # No test takes so long.
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    token = core.create_namespaced_service_account_token(name, namespace, asked).status.token
    document = yaml.safe_load(admin.read_text(encoding="utf-8"))
    document["users"] = [{"name": document["users"][0]["name"], "user": {"token": token}}]
    target.write_text(yaml.safe_dump(document), encoding="utf-8")
    return target
