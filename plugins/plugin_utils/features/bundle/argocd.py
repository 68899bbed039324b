# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deployer `argocd`: an Application that creates one Application for each folder, in waves by the depth of
dependencies.

Fields are those of argoproj.io/v1alpha1 (argoproj/argo-cd, docs/user-guide/multiple_sources.md, sync-waves.md, helm.md:
an OCI repository is written without `oci://`). Pure.
"""

from __future__ import annotations

from typing import Any

from ...outcome.errors import InputError
from ...recipe.yaml_dump import dump_yaml
from .content import Files, annotated, chart_files, chart_repository, readme, several, values_files
from .parts import Bundle, BundlePart, Json

_API = "argoproj.io/v1alpha1"
_NAMESPACE, _ROOT = "argocd", "gpu-stack"
_WAVE = "argocd.argoproj.io/sync-wave"
# On every unmanaged namespace: Argo CD creates it, and never deletes it.
_KEPT = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}
_APPLY = """\
## Apply

You need Argo CD 2.8 or newer with access to the repository. Put this directory there, at the path and the revision that
`bundle.yaml` names, then once:

    kubectl apply -f app-of-apps.yaml

Argo CD waits from wave to wave for the health of Applications only where it is told how to see it. ConfigMap
`argocd-cm` needs (Argo CD, docs/operator-manual/health.md):

```yaml
data:
  resource.customizations.health.argoproj.io_Application: |
    hs = {status = "Progressing", message = ""}
    if obj.status ~= nil and obj.status.health ~= nil then
      hs.status = obj.status.health.status
      hs.message = obj.status.health.message
    end
    return hs
```

Deleting an Application leaves what it installed."""


def files_of(bundle: Bundle) -> Files:
    """Return the files of the deployer.

    Raises:
        InputError: a component needs secret values, which Argo CD cannot read from anywhere.
    """
    for part in bundle.withholding:
        reason = f"needs a secret at {part.values.places[0]}, and Argo CD takes values from Git alone."
        hint = "let the value name a Secret of the cluster (existingSecret, secretKeyRef), or take --deployer flux"
        raise InputError(f"component {part.component}", reason, hint)
    files: Files = {"app-of-apps.yaml": dump_yaml(_root(bundle))}
    if bundle.namespaces:
        kept = [annotated(body, _KEPT | {_WAVE: "-1"}) for body in bundle.namespaces]
        files["applications/000-namespaces.yaml"] = several(kept)
    for part in bundle.parts:
        files[f"applications/{part.folder}.yaml"] = dump_yaml(_application(part, bundle))
        files |= values_files(part) | chart_files(part)
    return files | {"README.md": readme(bundle, "for Argo CD", [_APPLY])}


def _root(bundle: Bundle) -> Json:
    source = _from_git(bundle) | {"path": bundle.repository.inside("applications")}
    return _object(_ROOT, {"source": source, "destination": _destination(_NAMESPACE), "syncPolicy": _policy()})


def _application(part: BundlePart, bundle: Bundle) -> Json:
    spec: Json = {"destination": _destination(part.namespace), "syncPolicy": _policy()}
    if part.upstream is None:
        helm = {"releaseName": part.release}
        spec["source"] = _from_git(bundle) | {"path": bundle.repository.inside(part.folder), "helm": helm}
    else:
        values = f"$values/{bundle.repository.inside(part.folder)}/values.yaml"
        chart = _chart(part) | {"helm": {"releaseName": part.release, "valueFiles": [values]}}
        spec["sources"] = [chart, _from_git(bundle) | {"ref": "values"}]
    return annotated(_object(f"{_ROOT}-{part.release}", spec), {_WAVE: str(part.wave)})


def _chart(part: BundlePart) -> Json:
    repository, name, version = chart_repository(part, "Argo CD")
    return {"repoURL": repository.removeprefix("oci://"), "chart": name, "targetRevision": version}


def _from_git(bundle: Bundle) -> Json:
    return {"repoURL": bundle.repository.url, "targetRevision": bundle.repository.revision}


def _destination(namespace: str) -> Json:
    return {"server": "https://kubernetes.default.svc", "namespace": namespace}


def _policy() -> Json:
    return {
        "automated": {"prune": True, "selfHeal": True},
        # Definitions are too large for client-side apply; kinds of an earlier wave are unknown when a plan is made.
        "syncOptions": ["ServerSideApply=true", "SkipDryRunOnMissingResource=true"],
        "retry": {"limit": 10, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "3m"}},
    }


def _object(name: str, spec: dict[str, Any]) -> Json:
    return {
        "apiVersion": _API,
        "kind": "Application",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"project": "default", **spec},
    }
