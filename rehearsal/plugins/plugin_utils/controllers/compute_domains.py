# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the ComputeDomain controller: the claim template of every domain, with which pods request a channel.

As the template of cmd/compute-domain-controller in kubernetes-sigs/dra-driver-nvidia-gpu has it.
"""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import RESOURCE_SLICES, Kind

from .cluster_facts import CREATE, Change, ClusterFacts, ClusterView, Json, is_deleted, key_of, owner_reference
from .dra_driver import DOMAIN_DRIVER

MANAGER = "compute-domain-controller"
COMPUTE_DOMAINS = Kind("resource.nvidia.com/v1beta1", "ComputeDomain", "computedomains")
CLAIM_TEMPLATES = Kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
_CHANNEL = "channel"


def reconcile(view: ClusterView, _facts: ClusterFacts) -> list[Change]:
    """Return the claim templates to write, if nodes offer channels."""
    if not any(item["spec"]["driver"] == DOMAIN_DRIVER for item in view.all(RESOURCE_SLICES)):
        return []
    known = {key_of(item) for item in view.all(CLAIM_TEMPLATES)}
    bodies = [_template(item) for item in view.all(COMPUTE_DOMAINS) if not is_deleted(item)]
    return [
        Change(MANAGER, CREATE, CLAIM_TEMPLATES, body["metadata"]["name"], body["metadata"]["namespace"], body=body)
        for body in bodies
        if key_of(body) not in known
    ]


def _template(domain: Json) -> Json:
    parameters = {
        "apiVersion": COMPUTE_DOMAINS.api_version,
        "kind": "ComputeDomainChannelConfig",
        "domainID": domain["metadata"]["uid"],
    }
    request = {"name": _CHANNEL, "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}
    config = {"requests": [_CHANNEL], "opaque": {"driver": DOMAIN_DRIVER, "parameters": parameters}}
    return {
        "metadata": {
            "name": domain["spec"]["channel"]["resourceClaimTemplate"]["name"],
            "namespace": domain["metadata"]["namespace"],
            "ownerReferences": [owner_reference(domain, COMPUTE_DOMAINS.api_version, COMPUTE_DOMAINS.kind)],
        },
        "spec": {"spec": {"devices": {"requests": [request], "config": [config]}}},
    }
