"""What the commands share when they talk to people and programs."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final, NoReturn

from rich.console import Console

BROKEN_PIPE: Final = 141


class Paper(Console):
    """Standard output for people. Where its reader has gone the command ends as one whose pipe broke, not as failed."""

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """End the command."""
        end_of_pipe()


def end_of_pipe() -> NoReturn:
    """End the process as the shell reports a broken pipe: the verdict was not read, so none is given."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(BROKEN_PIPE)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    try:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        end_of_pipe()


def print_lines(lines: list[str]) -> None:
    """Lines of plain text on standard output."""
    sys.stdout.write("\n".join(lines) + "\n")
