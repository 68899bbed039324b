# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kustomize by its command line: a directory of a Git repository, or of this machine, as plain manifests.

The form of a remote target, `REPOSITORY//PATH?ref=TAG`, is that of kubernetes-sigs/kustomize examples/remoteBuild.md.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..outcome.errors import BringupError, DeadlineError, InputError, NotFoundError, UnavailableError
from ..runtime.clock import elapsed_text
from ..runtime.process import run_command
from ..runtime.redaction import excerpt

# kubectl has Kustomize built in since 1.14.
_PROGRAMS = (("kustomize", ("kustomize", "build")), ("kubectl", ("kubectl", "kustomize")))
_SUFFIX = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class KustomizeSource:
    """The source of a component. `tag` is empty for a directory of this machine."""

    component: str
    source: str
    path: str = ""
    tag: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return self.source.startswith(("/", "~"))

    @property
    def target(self) -> str:
        """The argument for Kustomize."""
        if self.is_local:
            return str(Path(self.source).expanduser() / self.path)
        return f"{self.source.rstrip('/')}//{self.path.strip('/')}?ref={self.tag}"

    @property
    def file_name(self) -> str:
        """The name of its rendered manifests in a mirror."""
        return f"{self.component}-{self.tag}{_SUFFIX}" if self.tag else f"{self.component}{_SUFFIX}"


def program() -> tuple[str, ...]:
    """Return the build command. Empty if no program is on PATH."""
    return next((command for name, command in _PROGRAMS if shutil.which(name)), ())


def check_source(source: KustomizeSource) -> None:
    """Check that a source can be built with the same result each time.

    Raises:
        InputError: no source, or a remote one without a tag.
    """
    subject = f"component {source.component}"
    if not source.source:
        raise InputError(subject, "the recipe names no Kustomize source.", "set `source` in the recipe")
    if not (source.tag or source.is_local):
        raise InputError(subject, "the recipe pins no tag of its Kustomize source.", "set `tag` in the recipe")


def build(source: KustomizeSource, mirror: str = "", timeout_s: float = 120.0) -> str:
    """Return the manifests of a source as YAML.

    Args:
        source: what to build.
        mirror: a directory or an http(s) address with `<component>-<tag>.yaml`, rendered earlier; if set, nothing else
            is used.
        timeout_s: time limit of the build in seconds, its download included.

    Raises:
        InputError: the source is incomplete.
        NotFoundError: the mirror lacks the file, or no program is installed.
        DeadlineError: it took too long.
        UnavailableError: it failed; the reason quotes it.
    """
    check_source(source)
    subject = f"component {source.component}"
    if mirror and not source.is_local:
        return _mirrored(source, mirror, subject)
    command = program()
    if not command:
        hint = f"install kustomize or kubectl and git, or put {source.file_name} into gpufleet_chart_mirror"
        raise NotFoundError(subject, "is built by Kustomize, and neither kustomize nor kubectl is on PATH.", hint)
    # Git must not prompt for a password: nothing could enter one.
    result = run_command([*command, source.target], timeout_s, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
    reported = " ".join([*command, source.target])
    hint = f"check that the controller reaches {source.source}, or put {source.file_name} into gpufleet_chart_mirror"
    if result.timed_out:
        raise DeadlineError(subject, f"{reported} was not done after {elapsed_text(timeout_s)}.", hint)
    if result.rc != 0:
        lines = [line for line in excerpt(result.stderr).splitlines() if line.strip()]
        last = lines[-1] if lines else "it said nothing"
        raise UnavailableError(subject, f"{reported} failed: {last[:300]}", hint, (excerpt(result.stderr),))
    return result.stdout


def _mirrored(source: KustomizeSource, mirror: str, subject: str) -> str:
    wanted = f"{' '.join(program() or _PROGRAMS[1][1])} '{source.target}' > {source.file_name}"
    if mirror.startswith(("http://", "https://")):
        return _fetched(source, mirror, subject, wanted)
    if "://" in mirror:
        reason = f"is built by Kustomize, and the chart mirror {mirror} holds charts only."
        raise InputError(subject, reason, f"use a directory or an http address, with what this writes: {wanted}")
    path = Path(mirror).expanduser() / source.file_name
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        there = sorted(entry.name for entry in path.parent.glob(f"{source.component}-*{_SUFFIX}"))
        found = f"there is {', '.join(there)}" if there else "nothing of that component is there"
        hint = f"where the internet is reached: {wanted}; then put it into the mirror (gpufleet_chart_mirror)"
        raise NotFoundError(subject, f"{path} does not exist; {found}.", hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BringupError(subject, f"{path} cannot be read: {error}.") from None


def _fetched(source: KustomizeSource, mirror: str, subject: str, wanted: str) -> str:
    """Return the file from a mirror at an http address."""
    from .http.model import HttpStatusError
    from .http.routes import UrlRoute
    from .http.session import HttpSession

    session = HttpSession(UrlRoute(mirror), timeout_s=60.0)
    try:
        return session.text("GET", f"/{source.file_name}")
    except HttpStatusError as error:
        reason = f"{session.where}/{source.file_name} answers {error.status}."
        raise NotFoundError(subject, reason, f"where the internet is reached: {wanted}; then put it there") from None
    except BringupError as error:
        raise UnavailableError(subject, f"the chart mirror {error.subject} {error.reason}", error.hint) from None
