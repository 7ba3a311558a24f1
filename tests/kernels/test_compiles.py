"""Kernels compile. The interpreter runs what the compiler refuses, and most machines have no device to tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_kernels_compile_for_hopper(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    script = str(Path(__file__).with_name("compile_kernels.py"))
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "compiled 66\n"
