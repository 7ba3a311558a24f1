"""A cache of verdicts in the user's cache directory, keyed by what was decided and by whom."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any


def cache_directory() -> Path:
    """Where verdicts are kept: POOLPROOF_CACHE_DIR, or the platform's cache directory for users."""
    override = os.environ.get("POOLPROOF_CACHE_DIR")
    if override:
        return Path(override)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "poolproof"


LAYOUT = "4"
"""Changes whenever the values that are kept change their shape."""


def digest(*parts: str) -> str:
    """A key: the SHA-256 of the parts, and of the layout of what is kept."""
    return hashlib.sha256("\0".join([LAYOUT, *parts]).encode()).hexdigest()


class Cache:
    """Verdicts by key. A cache that cannot be read or written is as good as an empty one."""

    def __init__(self, enabled: bool = True) -> None:
        self._connection: sqlite3.Connection | None = None
        if enabled:
            try:
                self._connection = self._open(cache_directory() / "proofs.sqlite")
            except RuntimeError:  # a user without a home directory
                return

    def _open(self, path: Path) -> sqlite3.Connection | None:
        for attempt in range(2):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(path, timeout=5)
                connection.execute("create table if not exists verdicts (key text primary key, value text)")
                return connection
            except (OSError, sqlite3.OperationalError):  # out of reach, or somebody else holds it
                return None
            except sqlite3.DatabaseError:
                if attempt == 0:
                    path.unlink(missing_ok=True)  # not a database: start afresh
        return None

    def get(self, key: str) -> Any:
        """The value under a key, or None."""
        if self._connection is None:
            return None
        try:
            row = self._connection.execute("select value from verdicts where key = ?", (key,)).fetchone()
            return None if row is None else json.loads(row[0])
        except (sqlite3.DatabaseError, ValueError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Keep a value; it must be JSON."""
        if self._connection is None:
            return
        try:
            with self._connection:
                self._connection.execute("insert or replace into verdicts values (?, ?)", (key, json.dumps(value)))
        except sqlite3.DatabaseError:
            self._connection = None

    def close(self) -> None:
        """Release the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
