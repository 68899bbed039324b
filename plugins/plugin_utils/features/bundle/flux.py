# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deployer `flux`: a Kustomization that creates chart repositories and one HelmRelease for each folder, with dependsOn.

Fields are those of source.toolkit.fluxcd.io/v1, helm.toolkit.fluxcd.io/v2 and kustomize.toolkit.fluxcd.io/v1
(fluxcd/source-controller, helm-controller, kustomize-controller, docs/spec). Pure.
"""

from __future__ import annotations

import re
from typing import Any

from ...recipe.yaml_dump import dump_yaml
from .content import Files, annotated, chart_files, chart_repository, readme, repository_name, secrets_section, several
from .parts import Bundle, BundlePart, Json

_ENGINE, _NAMESPACE, _ROOT = "Flux", "flux-system", "gpu-stack"
# kustomize-controller creates them, and never deletes them or reverts fields that others set.
_KEPT = {"kustomize.toolkit.fluxcd.io/prune": "disabled", "kustomize.toolkit.fluxcd.io/ssa": "Merge"}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_APPLY = """\
## Apply

You need Flux 2.3 or newer, with access to the repository. Put this directory there, at the path and the revision that
`bundle.yaml` names, then once:

    kubectl apply -f flux.yaml

A repository that asks for credentials: Secret `gpu-stack` in `flux-system`, named as `secretRef` in `flux.yaml`."""


def files_of(bundle: Bundle) -> Files:
    """Return the files of the deployer.

    Raises:
        InputError: a chart is a package at an address.
    """
    files: Files = {"flux.yaml": several([_git(bundle), _root(bundle)])}
    if bundle.namespaces:
        files["flux/000-namespaces.yaml"] = several([annotated(body, _KEPT) for body in bundle.namespaces])
    repositories = {_repository(part)["metadata"]["name"]: _repository(part) for part in bundle.parts if part.upstream}
    if repositories:
        files["flux/000-repositories.yaml"] = several([repositories[name] for name in sorted(repositories)])
    for part in bundle.parts:
        files[f"flux/{part.folder}.yaml"] = dump_yaml(_release(part, bundle))
        files |= chart_files(part)
    resources = sorted(path.removeprefix("flux/") for path in files if path.startswith("flux/"))
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
    files["flux/kustomization.yaml"] = dump_yaml(kustomization)
    way = "\n".join(
        [
            "Then, for each component, before it is applied:",
            "",
            f"    kubectl create secret generic gpu-stack-COMPONENT --namespace {_NAMESPACE} \\",
            "      --from-file values.yaml=DIR/COMPONENT.yaml",
        ]
    )
    return files | {"README.md": readme(bundle, "for Flux", [_APPLY, secrets_section(bundle, way)])}


def _object(api: str, kind: str, name: str, spec: dict[str, Any]) -> Json:
    metadata = {"name": name, "namespace": _NAMESPACE}
    version = "v2" if api == "helm" else "v1"
    return {"apiVersion": f"{api}.toolkit.fluxcd.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def _git(bundle: Bundle) -> Json:
    revision = bundle.repository.revision
    word = "commit" if _COMMIT.fullmatch(revision) else "name" if revision.startswith("refs/") else "branch"
    spec = {"interval": "5m", "url": bundle.repository.url, "ref": {word: revision}}
    return _object("source", "GitRepository", _ROOT, spec)


def _root(bundle: Bundle) -> Json:
    source = {"kind": "GitRepository", "name": _ROOT}
    spec = {"interval": "10m", "path": f"./{bundle.repository.inside('flux')}", "prune": True, "sourceRef": source}
    return _object("kustomize", "Kustomization", _ROOT, spec)


def _repository(part: BundlePart) -> Json:
    address = chart_repository(part, _ENGINE)[0]
    spec: Json = {"interval": "1h", "url": address} | ({"type": "oci"} if address.startswith("oci://") else {})
    return _object("source", "HelmRepository", repository_name(address), spec)


def _release(part: BundlePart, bundle: Bundle) -> Json:
    if part.upstream is None:
        chart: Json = {
            "chart": f"./{bundle.repository.inside(part.folder)}",
            # The version of such a chart never changes.
            "reconcileStrategy": "Revision",
            "sourceRef": {"kind": "GitRepository", "name": _ROOT},
        }
    else:
        address, name, version = chart_repository(part, _ENGINE)
        source = {"kind": "HelmRepository", "name": repository_name(address)}
        chart = {"chart": name, "version": version, "sourceRef": source}
    # New fields of a definition come with an upgrade, as in gate 4.
    ways = {"crds": "CreateReplace", "remediation": {"retries": 5}}
    spec: Json = {
        "interval": "10m",
        "timeout": "15m",
        "releaseName": part.release,
        "targetNamespace": part.namespace,
        "storageNamespace": part.namespace,
        "chart": {"spec": chart},
        "install": ways,
        "upgrade": ways,
        "maxHistory": 5,
    }
    if part.values.written:
        spec["values"] = part.values.written
    if part.values.places:
        spec["valuesFrom"] = [{"kind": "Secret", "name": f"gpu-stack-{part.component}", "valuesKey": "values.yaml"}]
    if part.needs:
        releases = {known.folder: known.release for known in bundle.parts}
        spec["dependsOn"] = [{"name": f"{_ROOT}-{releases[folder]}"} for folder in part.needs]
    return _object("helm", "HelmRelease", f"{_ROOT}-{part.release}", spec)
