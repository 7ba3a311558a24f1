"""The folder of the example allocators, as the current folder of whoever fuzzes them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds `allocators`, made the current one."""
    folder = Path(__file__).resolve().parent
    monkeypatch.chdir(folder)
    return folder
