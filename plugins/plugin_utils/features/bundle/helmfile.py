# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deployer `helmfile`: one file that lists what helm is to install, with `needs`.

Keys are those of helmfile 1 (helmfile/helmfile, docs/index.md: repositories, releases, needs, helmDefaults, hooks; in a
file named .gotmpl expressions are evaluated before it is read as YAML). Pure.
"""

from __future__ import annotations

from ...recipe.yaml_dump import dump_yaml
from .content import (
    NAMESPACES_FILE,
    Files,
    chart_files,
    chart_repository,
    readme,
    repository_name,
    secrets_section,
    values_files,
)
from .parts import Bundle, BundlePart, Json

_ENGINE, _SECRETS = "helmfile", "GPUFLEET_SECRETS"
_APPLY = """\
## Apply

You need helmfile 1, helm, kubectl, and an administrator's kubeconfig.

    helmfile sync

`helmfile destroy` removes the releases. Helm never upgrades the definitions (CRDs) in a chart's `crds/`: before a newer
version, apply them with `helm show crds CHART | kubectl apply --server-side --filename -`."""


def files_of(bundle: Bundle) -> Files:
    """Return the files of the deployer.

    Raises:
        InputError: a chart is a package at an address.
    """
    repositories = {repository_name(address): address for part in bundle.parts if (address := _address(part))}
    state: Json = {
        "helmDefaults": {"wait": True, "waitForJobs": True, "timeout": 900, "historyMax": 5},
        "releases": [_release(part, bundle) for part in bundle.parts],
    }
    if repositories:
        state["repositories"] = [_repository(name, repositories[name]) for name in sorted(repositories)]
    if bundle.namespaces:
        words = ["apply", "--server-side", "--field-manager", "gpufleet-bundle", "--filename", NAMESPACES_FILE]
        state["hooks"] = [{"events": ["prepare"], "command": "kubectl", "args": words, "showlogs": True}]
    name = "helmfile.yaml.gotmpl" if bundle.withholding else "helmfile.yaml"
    files: Files = {name: dump_yaml(state)}
    for part in bundle.parts:
        files |= values_files(part) | chart_files(part)
    way = f"Then: `{_SECRETS}=DIR helmfile sync`"
    return files | {"README.md": readme(bundle, "for helmfile", [_APPLY, secrets_section(bundle, way)])}


def _address(part: BundlePart) -> str:
    return chart_repository(part, _ENGINE)[0] if part.upstream else ""


def _repository(name: str, address: str) -> Json:
    # An OCI address is written without its scheme.
    found: Json = {"name": name, "url": address.removeprefix("oci://")}
    return found | ({"oci": True} if address.startswith("oci://") else {})


def _release(part: BundlePart, bundle: Bundle) -> Json:
    release: Json = {"name": part.release, "namespace": part.namespace, "chart": f"./{part.folder}"}
    if part.upstream is not None:
        address, chart, version = chart_repository(part, _ENGINE)
        values = [f"{part.folder}/values.yaml"]
        if part.values.places:
            values.append(f'{{{{ requiredEnv "{_SECRETS}" }}}}/{part.component}.yaml')
        release |= {"chart": f"{repository_name(address)}/{chart}", "version": version, "values": values}
    if part.needs:
        keys = {known.folder: f"{known.namespace}/{known.release}" for known in bundle.parts}
        release["needs"] = [keys[folder] for folder in part.needs]
    return release
