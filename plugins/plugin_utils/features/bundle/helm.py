# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deployer `helm`: folders, and two scripts that apply and remove them with helm and kubectl. Pure but for reading the
scripts.

The scripts are always the same (recipes/bundle/): what differs is data beside them.
"""

from __future__ import annotations

from ...component_stack.facts import ReadyWhen
from ...runtime.files import RECIPES
from .content import Files, chart_files, readme, secrets_section, values_files
from .parts import Bundle, BundlePart

SCRIPTS = ("deploy.sh", "undeploy.sh")
_APPLY = """\
## Apply

You need bash, helm 3.14 or newer, kubectl, and an administrator's kubeconfig.

    ./deploy.sh

It installs folder by folder, waits until each is ready, and stops at the first that is not, with its name. Run it again
after the cause is mended. `./deploy.sh --help` has its options.

    ./undeploy.sh

It removes what `deploy.sh` installed. Namespaces, volumes and definitions (CRDs) stay."""


def files_of(bundle: Bundle) -> Files:
    """Return the files of the deployer."""
    files = {name: (RECIPES / "bundle" / name).read_text(encoding="utf-8") for name in SCRIPTS}
    for part in bundle.parts:
        files |= _folder(part)
    way = "Then: `./deploy.sh --secrets DIR`"
    return files | {"README.md": readme(bundle, "for Helm", [_APPLY, secrets_section(bundle, way)])}


def _folder(part: BundlePart) -> Files:
    lines = {"COMPONENT": part.component, "RELEASE": part.release, "NAMESPACE": part.namespace}
    files = {f"{part.folder}/release.env": _env(lines)} | values_files(part) | chart_files(part)
    if part.upstream is not None:
        source = {
            "CHART": part.upstream.reference,
            "REPO": part.upstream.repository,
            "VERSION": part.upstream.version,
        }
        files[f"{part.folder}/upstream.env"] = _env(source)
    if part.ready:
        files[f"{part.folder}/readiness.txt"] = "".join(_condition(ready) for ready in part.ready)
    return files


def _env(values: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _condition(ready: ReadyWhen) -> str:
    """Return a line: the kind in kubectl's notation, field, value, whether it has to be there, value that does not
    count, prefix of the name (`-`: none)."""
    group, _slash, version = ready.api_version.rpartition("/")
    kind = f"{ready.kind}.{version}.{group}" if group else ready.kind
    required = "yes" if ready.required else "no"
    return " ".join([kind, ready.field, ready.value, required, ready.ignored or "-", ready.name_prefix or "-"]) + "\n"
