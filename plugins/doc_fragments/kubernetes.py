# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of modules that speak to a Kubernetes cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """Options kubeconfig and context."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Kubeconfig file. Without it E(K8S_AUTH_KUBECONFIG) is read, then E(KUBECONFIG), then V(~/.kube/config), and in a
        pod its service account.
      - E(K8S_AUTH_HOST), E(K8S_AUTH_API_KEY), E(K8S_AUTH_SSL_CA_CERT), E(K8S_AUTH_CERT_FILE), E(K8S_AUTH_KEY_FILE),
        E(K8S_AUTH_VERIFY_SSL), E(K8S_AUTH_PROXY) and E(K8S_AUTH_IMPERSONATE_USER) mean what they mean in
        kubernetes.core. A token is taken from the environment or the kubeconfig only, never from an option.
    type: path
  context:
    description: Context of the kubeconfig. Without it E(K8S_AUTH_CONTEXT) is read, then the file's own choice counts.
    type: str
requirements:
  - kubernetes (Python library of the controller)
"""
