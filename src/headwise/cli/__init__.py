"""The command line: ``headwise COMMAND``. One file a subcommand; each parses, calls the public API and prints."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

from headwise.errors import HeadwiseError, UnavailableError, sentence

if TYPE_CHECKING:
    import typer

__all__ = ["commands", "main"]

_INSTALL = "In a checkout of headwise run: pip install '.[cli]'"

_HELP = """See what the attention heads of a model do. Each command has --help.

\b
Example:
    headwise look smollm2 --tokens 512
"""


def commands() -> list[str]:
    """The subcommands: every file of this folder holds one, a function of the file's own name.

    Example:
        >>> from headwise.cli import commands
        >>> "info" in commands()
        True
    """
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def _app(wanted: Sequence[str]) -> typer.Typer:
    import typer

    app = typer.Typer(
        name="headwise",
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    option = typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")

    # Without a callback a program of one command would drop the command's name, too.
    def shared(version: bool = False) -> None: ...

    shared.__annotations__["version"] = Annotated[bool, option]
    app.callback()(shared)
    for name in wanted:
        module = importlib.import_module(f"headwise.cli.{name}")
        app.command(name)(getattr(module, name))
    return app


def _without_packages(words: list[str], missing: ImportError) -> NoReturn:
    """Runs ``headwise info`` or ``--version``, which say what is not there; refuses the rest."""
    if words[:1] not in (["info"], ["--version"]):
        rule = "without it there are only headwise info and headwise --version"
        what = f"the command line needs {missing.name}, which is not installed"
        raise UnavailableError(sentence("headwise", what, rule, todo=_INSTALL)) from missing
    import argparse

    if words[0] == "--version":
        _say_version(True)
    about = "Versions, this machine, and why each backend can or cannot run."
    reading = argparse.ArgumentParser("headwise info", description=about, epilog="Example: headwise info --json")
    reading.add_argument("--json", action="store_true", help="One JSON object instead of tables.")
    from headwise.cli import _machine

    print(_machine.said(reading.parse_args(words[1:]).json))
    raise SystemExit(0)


def _say_version(wanted: bool) -> None:
    if wanted:
        from headwise import __version__

        print(f"headwise {__version__}")
        raise SystemExit(0)


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command line and ends the process: 0 done, 1 interrupted, 2 refused with one sentence on stderr.

    Args:
        args: the words after ``headwise``; None = those of this process.

    Raises:
        SystemExit: always.

    Example:
        >>> from headwise.cli import main
        >>> main(["info", "--help"])
        Traceback (most recent call last):
        SystemExit: 0
    """
    words = list(sys.argv[1:] if args is None else args)
    try:
        try:
            import rich  # noqa: F401  asked for here, so that no command fails halfway for want of it
            import typer  # noqa: F401
        except ImportError as missing:
            _without_packages(words, missing)
        known = commands()
        # Only the command that is asked for is imported; its neighbours may need packages that are not there.
        wanted = [words[0]] if words and words[0] in known else known
        _app(wanted)(words, prog_name="headwise")
    except HeadwiseError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:  # before a command is there to hear it
        raise SystemExit(1) from None
