# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands about bundles: bundle writes one, bundle-verify checks that it is whole, bundle-diff compares two."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from ..component_stack.render import Renderer, rendered
from ..features.bundle.app import bundle_for, files_of, write_bundle, write_secrets
from ..features.bundle.content import SUMS, digest_of
from ..features.bundle.parts import Bundle, ChartRepository
from ..features.bundle.verify import compare, verify
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..outcome.wording import count
from ..recipe.request import Answer
from .answer import formatted, warn, write, write_lines
from .questions import answered, criteria_in, has_question, is_criteria, kept_in, named_file, request_for

_DIFFERS, _INVALID = 1, 2


def bundle(arguments: Namespace) -> int:
    """Write the bundle of a recipe."""
    target = Path(arguments.into).expanduser()
    repository = ChartRepository(
        url=arguments.repo or "", revision=arguments.revision or "", path=(arguments.path or "").strip("/")
    )
    recipe, mirror = _recipe(arguments), arguments.chart_mirror or ""
    try:
        recipe = rendered(recipe, Renderer(helm=arguments.helm, mirror=mirror))
        made = bundle_for(recipe, arguments.deployer, repository, mirror)
    except ProblemsError as error:
        raise ProblemsError(error.subject, tuple(_by_flags(problem) for problem in error.problems)) from None
    except BringupError as error:
        raise _by_flags(error) from None
    files = files_of(made)
    secrets = _secrets(arguments, made, target)
    changed = write_bundle(target, files)
    if made.withholding and not secrets:
        places = (f"{part.component}: {', '.join(part.values.places)}" for part in made.withholding)
        warn([f"secrets are in no file of the bundle ({'; '.join(places)}): see Secrets in its README.md"])
    reported = {
        "bundle": str(target),
        "deployer": made.deployer,
        "components": len(made.components),
        "folders": len(made.parts),
        "files": len(files),
        "sha256": digest_of(files[SUMS].encode()),
        "changed": changed,
    }
    if arguments.format in (None, "text"):
        write_lines(_lines(reported, secrets))
    else:
        write(formatted(reported | ({"secrets": [str(path) for path in secrets]} if secrets else {}), arguments.format))
    return 0


def _by_flags(error: BringupError) -> BringupError:
    """Return an error whose fix names the flag of this command in place of the variable of a play."""
    reason, hint = (text.replace("gpufleet_chart_mirror", "--chart-mirror") for text in (error.reason, error.hint))
    return type(error)(error.subject, reason, hint, error.evidence)


def _lines(reported: dict[str, Any], secrets: tuple[Path, ...]) -> list[str]:
    what = (
        f"{count(reported['components'], 'component')} in {count(reported['folders'], 'folder')}, "
        f"{reported['files']} files"
    )
    return [
        f"bundle    {reported['bundle']}{'' if reported['changed'] else ' (unchanged)'}",
        f"holds     {what}, for {reported['deployer']}",
        f"sha256    {reported['sha256']} ({SUMS})",
        *(f"secrets   {path}" for path in secrets),
    ]


def _secrets(arguments: Namespace, made: Bundle, target: Path) -> tuple[Path, ...]:
    if arguments.secrets_into is None:
        return ()
    return write_secrets(Path(arguments.secrets_into).expanduser(), made, target)


def _recipe(arguments: Namespace) -> dict[str, Any]:
    """Return the named recipe, from a file or by criteria, hydrated."""
    from ..features.snapshot.recipe_drift import resolved_recipe
    from ..recipe.hydrate import hydrated
    from ..recipe.request import catalogue_of
    from ..recipe.resolved import document_result

    text = arguments.recipe
    request = request_for(arguments)
    if text is None or is_criteria(text):
        if text is None and not has_question(arguments):
            hint = "name a file, or criteria such as --service eks --accelerator h100"
            raise InputError("gpufleet bundle", "no recipe is named.", hint)
        from dataclasses import replace

        configured = {**request.criteria, **criteria_in(text or "")}
        found = answered(replace(request, criteria=configured))
        return _hydrated(found, request.overrides, arguments)
    document = resolved_recipe(named_file(text, "name the file of a recipe, or criteria such as service=eks"))
    if has_question(arguments) or request.overrides or request.profiles:
        hint = "leave the flags out, or name no file"
        raise InputError(f"recipe {text}", "is resolved already, and flags ask for another one.", hint)
    if all("values" in entry for entry in document["componentRefs"]):
        if arguments.driver_owner:
            raise InputError("--driver-owner", f"comes too late for {text}, which has its values.", "leave it out")
        return document
    catalogue = catalogue_of(request.recipe_data, kept_in(arguments))
    warn(catalogue.warnings)
    result = document_result(document, catalogue)
    if arguments.driver_owner:
        return _hydrated(Answer(result=result, catalogue=catalogue), {}, arguments)
    return hydrated(result, catalogue)


def _hydrated(found: Answer, overrides: Any, arguments: Namespace) -> dict[str, Any]:
    from ..features.recipe.owner_layer import with_owner
    from ..recipe.hydrate import hydrated

    owned, _stages = with_owner(found, overrides, arguments.driver_owner)
    return hydrated(owned.result, owned.catalogue)


def bundle_verify(arguments: Namespace) -> int:
    """Check that a bundle is unchanged; exit code 0 valid, 2 not."""
    found = verify(Path(arguments.directory).expanduser())
    answer = "invalid" if found.faults else "valid"
    if arguments.format in (None, "text"):
        lines = [f"valid: {found.files} files, for {found.deployer}, {SUMS} sha256 {found.digest}"]
        if found.faults:
            lines = [f"invalid: {found.faults[0]}", *(f"  and: {text}" for text in found.faults[1:])]
        write_lines(lines)
    else:
        reported = {"answer": answer, "faults": list(found.faults), "sha256": found.digest, "files": found.files}
        write(formatted(reported | {"deployer": found.deployer}, arguments.format))
    return _INVALID if found.faults else 0


def bundle_diff(arguments: Namespace) -> int:
    """Print what differs between two bundles; exit code 0 nothing, 1 something."""
    found = compare(Path(arguments.left).expanduser(), Path(arguments.right).expanduser())
    if found.not_compared:
        warn([f"secrets are in neither, and not compared: {', '.join(found.not_compared)}"])
    if arguments.format in (None, "text"):
        write_lines(found.lines())
    else:
        from ..outcome.codec import to_plain

        write(formatted(to_plain(found), arguments.format))
    return 0 if found.same else _DIFFERS
