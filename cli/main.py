"""Entry of the `poolproof` command: finds the sub-commands, and turns errors into one line and an exit code.

Exit codes: 0 good; 1 a verdict that is not good; 2 wrong use.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

import typer

COMMANDS: Final = ("check", "prove", "fuzz", "replay", "bench")
WRONG_USE: Final = 2
_INTERRUPTED: Final = 130

# The command-line library's own error base; typer carries a copy of click, or uses click, depending on its version.
_CommandLineError: Final[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def make_app() -> typer.Typer:
    """The command with every sub-command that this installation has."""
    app = typer.Typer(
        name="poolproof",
        help="A memory pool for inference engines that is proved, not only tested.",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_version_option)
    for name in COMMANDS:
        module = _module_of(name)
        if module is not None:
            module.register(app)
    return app


def _module_of(name: str) -> Any:
    path = f"poolproof.cli.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return None


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("poolproof"))
        raise typer.Exit


def _version_option(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def is_wrong_use(error: Exception) -> bool:
    """One of our typed errors, or about a file? A failed assertion is none: it is ours, and is shown in full."""
    if isinstance(error, OSError) and error.filename is not None:
        return True
    return type(error).__module__.partition(".")[0] == "poolproof" and not isinstance(error, AssertionError)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    try:
        status = make_app()(args=arguments, prog_name="poolproof", standalone_mode=False)
    except _CommandLineError as error:
        status = error.exit_code
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            _complain(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        status = _INTERRUPTED
    except Exception as error:
        if not is_wrong_use(error):
            raise
        _complain(str(error))
        status = WRONG_USE
    sys.exit(status if isinstance(status, int) else 0)


def _complain(text: str) -> None:
    print(f"poolproof: {' '.join(text.split())}", file=sys.stderr)
