# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One call of the command gpufleet: its arguments, the named command, and an exit code for every end."""

from __future__ import annotations

import os
import re
import sys
from argparse import Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter, _ArgumentGroup
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ..outcome.errors import AbortedError, BringupError, InputError, ProblemsError, UnavailableError
from ..recipe.criteria import ORDER
from ..recipe.dialect import UPSTREAM_APIS
from ..recipe.nearest import nearest
from ..runtime.text import visible

# The arguments of the command gpufleet.

_EXIT_CODES = """\
exit codes:
  0 done   1 diff --exit-code: different   2 input is wrong   3 not found   5 time ran out
  8 failed, or not known   9 interrupted
  bundle-verify: 0 valid   2 invalid   bundle-diff: 0 the same   1 different
  evidence-verify: 0 valid   1 valid with failed gates   2 invalid   3 incomplete
"""
_INVALID_CHOICE = re.compile(r"(?P<argument>.*): invalid choice: '?(?P<word>.*?)'? \(choose from (?P<known>.*)\)")


class Command(NamedTuple):
    """One command: a description, its arguments, and the function that runs it (module:function)."""

    help: str
    add: Callable[[ArgumentParser], None]
    work: str
    example: str


class _Parser(ArgumentParser):
    """A parser with our own error messages, which name the nearest known word."""

    def error(self, message: str) -> NoReturn:
        found = _INVALID_CHOICE.fullmatch(message)
        if found is None:
            raise InputError(self.prog, f"{message}.", f"see {self.prog} --help")
        known = re.findall(r"[\w-]+", found["known"])
        reason = f"{found['word']!r} is no {found['argument'].removeprefix('argument ').lower()}."
        raise InputError(self.prog, reason, _hint(found["word"], known))


class _Once(Action):
    """An option that may be given only once, by whichever of its names."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        before = getattr(namespace, self.dest, None)
        if before not in (None, values):
            raise InputError(parser.prog, f"{option_string} is {values}, and {before} before.", "leave one of them out")
        setattr(namespace, self.dest, values)


def _hint(word: str, known: Sequence[str]) -> str:
    near = nearest(word, known)
    return f"did you mean {near}?" if near else f"there is: {', '.join(known)}"


def arguments_of(argv: Sequence[str], cache: Path) -> Namespace:
    """Return the arguments, with the function that does the work in `work`.

    Raises:
        InputError: there is no such command or option; with the nearest one that there is.
    """
    if "_ARGCOMPLETE" in os.environ:
        from .completion import complete

        parser, parsers = make_parser()
        complete(parser, parsers, cache)
    command = COMMANDS.get(argv[0]) if argv else None
    if command is None:
        # Help, or the error.
        return make_parser()[0].parse_args(argv or ["--help"])
    # The parser of one command alone: making those of all takes longer than a recipe.
    parser = _Parser(**_described(argv[0], command))
    _fill(parser, command)
    arguments, unknown = parser.parse_known_args(argv[1:])
    if unknown:
        _refuse(unknown, parser)
    return arguments


def _refuse(unknown: Sequence[str], parser: ArgumentParser) -> NoReturn:
    prog = parser.prog
    option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
    if not option:
        raise InputError(prog, f"{' '.join(unknown)!r} is one argument too many.", f"see {prog} --help")
    # Without their dashes, which make short names look similar.
    known = {name.lstrip("-"): name for action in parser._actions for name in action.option_strings}
    near = known.get(nearest(option.lstrip("-"), known) or "")
    raise InputError(prog, f"{option} is no option.", f"did you mean {near}?" if near else f"see {prog} --help")


def make_parser() -> tuple[ArgumentParser, Sequence[ArgumentParser]]:
    """Return the parser of all commands, and those of each."""
    parser = _Parser(
        prog="gpufleet",
        description="Answers about recipes and runs. Gates are run by Ansible: ansible-playbook gpufleet.bringup.site.",
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version of the collection")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made = []
    for name, command in COMMANDS.items():
        made.append(parsers.add_parser(name, help=command.help, **_described(name, command)))
        _fill(made[-1], command)
    return parser, made


def _described(name: str, command: Command) -> dict[str, Any]:
    return {
        "prog": f"gpufleet {name}",
        "description": f"{command.help[0].upper()}{command.help[1:]}.",
        "epilog": f"example:\n  {command.example}\n\n{_EXIT_CODES}",
        "allow_abbrev": False,
        "formatter_class": RawDescriptionHelpFormatter,
    }


def _fill(parser: ArgumentParser, command: Command) -> None:
    command.add(parser)
    parser.add_argument("--debug", action="store_true", help="show where in the code an error arose")
    parser.set_defaults(work=command.work)


def _question(parser: ArgumentParser) -> None:
    """Add the flags for criteria of a recipe, and for changes to it."""
    group = parser.add_argument_group("what the recipe is for")
    for name in ORDER:
        flags = [f"--{name.replace('_', '-')}", *(["--gpu"] if name == "accelerator" else [])]
        group.add_argument(*flags, dest=name, metavar="VALUE", action=_Once)
    group.add_argument("--criteria", metavar="FILE", help="the same as a file, or as service=eks,accelerator=h100")
    group.add_argument(
        "--snapshot",
        metavar="PLACE",
        help="read what is not stated off a file, https://..., cm://namespace/name, or: cluster",
    )
    group.add_argument("--kubeconfig", metavar="FILE", help="for cm:// and cluster")
    group.add_argument("--context", metavar="NAME", help="of the kubeconfig")
    _changing(parser.add_argument_group("what changes it"))


def _changing(group: _ArgumentGroup) -> None:
    group.add_argument(
        "--data", action="append", metavar="DIR", help="recipe data of your own, over the catalogue; a later one wins"
    )
    group.add_argument("--set", action="append", metavar="COMPONENT:PATH=VALUE", help="one chart value")
    group.add_argument("--profile", action="append", metavar="NAME=VALUE", help="the value of a profile of the layers")
    group.add_argument(
        "--unsupported", choices=("error", "warn"), default="error", help="what a criterion does that no layer honours"
    )


def _format(parser: ArgumentParser, *forms: str) -> None:
    parser.add_argument("--format", choices=forms, help=f"default: {forms[0]}")


def _recipe(parser: ArgumentParser) -> None:
    _question(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there, as JSON if it ends in .json")
    _format(parser, "yaml", "json", "text")
    parser.add_argument("--hydrated", action="store_true", help="with the merged chart values of every component")
    parser.add_argument(
        "--self-contained", action="store_true", help="all values inside, for the NVIDIA tool (its files beside FILE)"
    )
    parser.add_argument("--api", choices=UPSTREAM_APIS, help="what that tool's release reads (default: the first, 1.x)")


def _query(parser: ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", metavar="PATH", help="such as components.gpu-operator.version")
    parser.add_argument("--selector", metavar="PATH", help="the same")
    _question(parser)
    _owner(parser)
    _format(parser, "text", "yaml", "json")


def _owner(parser: ArgumentParser) -> None:
    reported = "who installs the driver at the site: with what a run lays over the recipe for it"
    parser.add_argument("--driver-owner", choices=("host", "operator"), help=reported)


def _values(parser: ArgumentParser) -> None:
    parser.add_argument("component", metavar="COMPONENT")
    _question(parser)
    _owner(parser)
    _format(parser, "yaml", "json")


def _diff(parser: ArgumentParser) -> None:
    parser.add_argument("sides", nargs="*", metavar="RECIPE", help="a file, or criteria: service=eks,intent=training")
    parser.add_argument("--exit-code", action="store_true", help="end with 1 if something differs")
    _question(parser)
    _format(parser, "text", "yaml", "json")


def _bundle(parser: ArgumentParser) -> None:
    reported = "a resolved recipe in a file, or criteria: service=eks,accelerator=h100"
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help=reported)
    # The names are those of features/bundle/app.py, which is loaded where a bundle is made.
    parser.add_argument(
        "--deployer",
        choices=("helm", "argocd", "flux", "helmfile"),
        default="helm",
        help="what applies it; default: helm",
    )
    parser.add_argument("--into", metavar="DIR", required=True, help="the directory of the bundle")
    parser.add_argument("--secrets-into", metavar="DIR", help="write the values that the bundle does not hold there")
    group = parser.add_argument_group("where an engine finds it")
    group.add_argument("--repo", metavar="URL", help="the Git repository that the bundle is put into")
    group.add_argument("--revision", metavar="REVISION", help="branch, tag (refs/tags/NAME) or commit there")
    group.add_argument("--path", metavar="PATH", help="the directory of the bundle there; default: its root")
    _question(parser)
    _owner(parser)
    reported = "where charts and what Kustomize built are; an address is written into the bundle"
    parser.add_argument("--chart-mirror", metavar="PLACE", help=reported)
    parser.add_argument("--helm", metavar="FILE", default="helm", help="the program that renders manifests")
    _format(parser, "text", "yaml", "json")


def _bundle_verify(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the directory of the bundle")
    _format(parser, "text", "yaml", "json")


def _bundle_diff(parser: ArgumentParser) -> None:
    parser.add_argument("left", metavar="A", help="the directory of a bundle")
    parser.add_argument("right", metavar="B", help="the directory of another")
    _format(parser, "text", "yaml", "json")


def _list(parser: ArgumentParser) -> None:
    _question(parser)
    _format(parser, "text", "yaml", "json")


def _versions(parser: ArgumentParser) -> None:
    parser.add_argument("component", nargs="?", metavar="COMPONENT", help="this one alone")
    parser.add_argument("--kubernetes", metavar="VERSION", help="ask about it; default: that of --snapshot")
    parser.add_argument("--exit-code", action="store_true", help="end with 8 if one is not for that Kubernetes")
    _question(parser)
    _format(parser, "text", "yaml", "json")


def _upgrade_check(parser: ArgumentParser) -> None:
    reported = "a file, or criteria; with --snapshot one is what is wanted, otherwise what there is before"
    parser.add_argument("sides", nargs="*", metavar="RECIPE", help=reported)
    parser.add_argument("--kubernetes", metavar="VERSION", help="ask about it; default: that of --snapshot")
    parser.add_argument("--exit-code", action="store_true", help="end with 8 if a person has to look at something")
    _question(parser)
    _format(parser, "text", "yaml", "json")


def _status(parser: ArgumentParser) -> None:
    _arguments_run(parser)
    parser.add_argument("--exit-code", action="store_true", help="end with 8 if the run is not passed")
    _format(parser, "text", "yaml", "json")


def _fleet_status(parser: ArgumentParser) -> None:
    reported = "a run, a site's .run, or a directory with one for each cluster; default: .run"
    parser.add_argument("places", nargs="*", metavar="PLACE", help=reported)
    parser.add_argument("--confirm", action="store_true", help="compute every verdict again from what was observed")
    parser.add_argument("--exit-code", action="store_true", help="end with 8 if a cluster is not accepted")
    _format(parser, "text", "yaml", "json", "prometheus", "html", "markdown")


def _arguments_run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", default=".run/latest", metavar="RUN", help="its directory; default: .run/latest"
    )


def _judge(parser: ArgumentParser) -> None:
    _arguments_run(parser)
    parser.add_argument("--set", action="append", metavar="CHECK.OPTION=VALUE", help="judge a second time, by this")
    parser.add_argument(
        "--thresholds", choices=("saved", "current"), default="saved", help="by those of then, or of now"
    )
    parser.add_argument("--data", action="append", metavar="DIR", help="recipe data with thresholds of your own")
    parser.add_argument("--what-if-dir", metavar="DIR", help="where the second judgement is written")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, neither reports nor a second judgement")
    _format(parser, "text", "yaml", "json")


def _evidence(parser: ArgumentParser) -> None:
    _arguments_run(parser)
    parser.add_argument("--out", metavar="FILE", help="where it is written; default: attestation.intoto.jsonl in RUN")
    parser.add_argument("--key", action="append", metavar="FILE", help="sign with this Ed25519 or ECDSA key (PEM)")
    parser.add_argument("--ssh-key", action="append", metavar="FILE", help="sign with this SSH key")
    parser.add_argument("--full", action="store_true", help="with names of nodes, messages and key figures")
    _format(parser, "text", "yaml", "json")


def _evidence_verify(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="FILE", help="the statement, the directory of a run, or an archive of one")
    parser.add_argument("--run", metavar="RUN", help="compare the statement with this run")
    parser.add_argument("--key", action="append", metavar="FILE", help="public key (PEM) that must have signed")
    reported = "list of SSH signers (ssh-keygen) of whom one must have signed"
    parser.add_argument("--allowed-signers", action="append", metavar="FILE", help=reported)
    _format(parser, "text", "yaml", "json")


def _faults(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="of the id (gpu-*), or a word of the description")
    _format(parser, "text", "yaml", "json")


def _history(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("check", "backup", "export"))
    reported = "file or database; default: GPUFLEET_STORE_URL, else .run/history.sqlite"
    parser.add_argument("--store", metavar="PLACE", help=reported)
    parser.add_argument("--dest", metavar="PATH", help="file of the backup, directory of the export")
    parser.add_argument("--site-name", metavar="NAME", help="whose results are exported")
    parser.add_argument("--rehearsal", action="store_true", help="export what rehearsals left")
    parser.add_argument("--formats", action="append", choices=("csv", "parquet"), help="of the export; default: csv")


def _plan(parser: ArgumentParser) -> None:
    parser.add_argument("-i", "--inventory", action="append", metavar="FILE", help="the inventory of the site")
    parser.add_argument(
        "-e", "--extra-vars", action="append", metavar="NAME=VALUE", help="a variable, as ansible-playbook"
    )


COMMANDS: Mapping[str, Command] = {
    "recipe": Command(
        help="resolve a recipe",
        add=_recipe,
        work="recipes:recipe",
        example="gpufleet recipe --service eks --accelerator h100 --intent training -o recipe.yaml",
    ),
    "query": Command(
        help="print one value of a recipe",
        add=_query,
        work="recipes:query",
        example="gpufleet query components.gpu-operator.values.driver.version --service eks --accelerator h100",
    ),
    "explain": Command(
        help="tell which layers set a value, and what each replaced",
        add=_query,
        work="recipes:explain",
        example="gpufleet explain components.gpu-operator.values.driver --service eks --accelerator h100",
    ),
    "values": Command(
        help="print the chart values of one component, for helm",
        add=_values,
        work="recipes:values",
        example="gpufleet values gpu-operator --service eks --accelerator h100 > values.yaml",
    ),
    "diff": Command(
        help="compare two recipes, from the first to the second; with none, what --data, --set and --profile change",
        add=_diff,
        work="differences:diff",
        example="gpufleet diff intent=training intent=inference --service eks --accelerator h100",
    ),
    "bundle": Command(
        help="write a recipe as files that Helm or a GitOps engine applies",
        add=_bundle,
        work="bundles:bundle",
        example="gpufleet bundle --service eks --accelerator h100 --intent training --into gpu-stack",
    ),
    "bundle-verify": Command(
        help="tell whether a bundle is as it was made",
        add=_bundle_verify,
        work="bundles:bundle_verify",
        example="gpufleet bundle-verify gpu-stack",
    ),
    "bundle-diff": Command(
        help="tell what differs between two bundles, by component and value",
        add=_bundle_diff,
        work="bundles:bundle_diff",
        example="gpufleet bundle-diff gpu-stack gpu-stack-next",
    ),
    "list": Command(
        help="list what the catalogue supports",
        add=_list,
        work="recipes:listed",
        example="gpufleet list --service eks",
    ),
    "versions": Command(
        help="tell what is pinned, when somebody last read about it, and whether a version of Kubernetes suits it",
        add=_versions,
        work="versions:versions",
        example="gpufleet versions --kubernetes 1.36 --service eks --accelerator h100 --intent training",
    ),
    "upgrade-check": Command(
        help="tell what an upgrade is for each component, from a recipe or what is installed: safe, manual, blocked, "
        "unknown",
        add=_upgrade_check,
        work="upgrades:upgrade_check",
        example="gpufleet upgrade-check recipe.yaml --service eks --accelerator h100 --intent training",
    ),
    "status": Command(
        help="tell where a run stands or how it ended, from its directory",
        add=_status,
        work="runs:status",
        example="gpufleet status .run/latest",
    ),
    "fleet-status": Command(
        help="tell which clusters of a fleet are accepted and what holds the others, from their run directories",
        add=_fleet_status,
        work="clusters:fleet_status",
        example="gpufleet fleet-status .run",
    ),
    "judge": Command(
        help="compute the verdicts of a saved run again, without the cluster",
        add=_judge,
        work="runs:judge",
        example="gpufleet judge .run/latest --set clock-sync.clock_offset_s=0.02",
    ),
    "evidence": Command(
        help="write a statement about a run and sign it, or sign the one that is there",
        add=_evidence,
        work="statements:evidence",
        example="gpufleet evidence .run/latest --key site.key",
    ),
    "evidence-verify": Command(
        help="tell what a signed statement about a run proves",
        add=_evidence_verify,
        work="statements:evidence_verify",
        example="gpufleet evidence-verify .run/latest --key site.pub",
    ),
    "plan": Command(
        help="tell what each gate would do at a site, how long it takes and what it disturbs",
        add=_plan,
        work="playbooks:plan",
        example="gpufleet plan -i inventory/hosts.yml",
    ),
    "faults": Command(
        help="list what a rehearsal can break",
        add=_faults,
        work="faults:faults",
        example="gpufleet faults 'gpu-*'",
    ),
    "history": Command(
        help="check a history, back it up, or export the results of a site",
        add=_history,
        work="runs:history",
        example="gpufleet history backup --dest /backup/history.sqlite",
    ),
}


# The exit code in a shell of a program whose reader has gone (128 and SIGPIPE).
_READER_GONE = 141


def run(argv: Sequence[str], cache: str) -> int:
    """Run the command and return its exit code: 0, or that of the error (outcome/errors.py); nothing is raised.

    Args:
        argv: the arguments.
        cache: the directory of this user for cached files.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows its number.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _run(argv, Path(cache))
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            _discard_output()
            return _READER_GONE
        except OSError as error:
            _discard_output()
            what = error.filename or "standard output"
            raise UnavailableError(str(what), f"{error.strerror or error}.") from None
        except SystemExit as end:
            return int(end.code or 0)
        except KeyboardInterrupt:
            raise AbortedError("this command", "was interrupted.") from None
        except ModuleNotFoundError as error:
            raise _package_missing(error) from None
    except BringupError as error:
        _report(error)
        return error.exit_code
    except Exception as crash:
        if "--debug" in argv:
            raise
        reason = f"crashed with {type(crash).__name__}: {crash}."
        _report(BringupError("this command", reason, "this is a defect: run it again with --debug and report it"))
        return BringupError.exit_code


def _run(argv: Sequence[str], cache: Path) -> int:
    if list(argv) == ["--version"]:
        from ..run.version import COLLECTION, collection_version

        sys.stdout.write(f"{COLLECTION} {collection_version()}\n")
        return 0
    arguments = arguments_of(argv, cache)
    arguments.cache = cache
    module, _colon, function = str(arguments.work).partition(":")
    code: int = getattr(import_module(f"{__package__}.{module}"), function)(arguments)
    return code


def _report(error: BringupError) -> None:
    """Write the error to standard error; a single problem without a list."""
    if isinstance(error, ProblemsError) and len(error.problems) == 1:
        _report(error.problems[0])
        return
    try:
        # Variables begin with that word as well.
        text = str(error) if str(error).startswith(("gpufleet ", "gpufleet:")) else f"gpufleet: {error}"
        sys.stderr.write("".join(f"{visible(line)}\n" for line in text.split("\n")))
        sys.stderr.flush()
    except OSError:
        return


def _discard_output() -> None:
    """Redirect standard output, so that Python's own flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _package_missing(error: ModuleNotFoundError) -> BringupError:
    if (error.name or "").partition(".")[0] == "ansible_collections":
        raise error
    from ..runtime.files import COLLECTION_ROOT

    hint = (
        f"{sys.executable} -m pip install -r {COLLECTION_ROOT}/requirements.txt, or name a Python that has it: "
        "GPUFLEET_PYTHON=/path/to/python3"
    )
    return InputError(f"Python package {error.name}", f"is not installed for {sys.executable}.", hint)
