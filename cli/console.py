"""What the commands share when they talk to people and programs."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value) + "\n")


def print_lines(lines: list[str]) -> None:
    """Lines of plain text on standard output."""
    sys.stdout.write("\n".join(lines) + "\n")
