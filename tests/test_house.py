"""The house rules, held by the tools that know them: style, types, import arrows, and what is imported when."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {"spec": "spec", "proofs": "proofs", "fuzz": "fuzz", "kernels": "kernels", "cli": "cli"}
SOURCES = [*ROOMS, "impl", "tests", "bench", "docs"]


def run(*command: str, cwd: Path = ROOT, **more: str) -> str:
    """Run a command that must succeed; its output."""
    import os

    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **more})
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages laid out under their import names, however the project is installed."""
    base = tmp_path_factory.mktemp("tree")
    package = base / "poolproof"
    package.mkdir()
    for file in (ROOT / "impl").iterdir():
        if file.name != "__pycache__":
            (package / file.name).symlink_to(file)
    for room, folder in ROOMS.items():
        (package / room).symlink_to(ROOT / folder)
    return base


def test_ruff_finds_nothing() -> None:
    run(sys.executable, "-m", "ruff", "check", ".")
    run(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_mypy_is_strict_everywhere(tree: Path) -> None:
    config = str(ROOT / "pyproject.toml")
    out = run(
        sys.executable, "-m", "mypy", "--strict", "--config-file", config, "-p", "poolproof", cwd=tree, MYPYPATH="."
    )
    assert "no issues found" in out


def test_the_import_arrows_hold() -> None:
    script = Path(sys.executable).with_name("lint-imports")
    assert "0 broken" in run(str(script), "--no-cache")


def test_the_arrows_name_every_module_of_impl() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {c["name"]: set(c["source_modules"]) for c in config["tool"]["importlinter"]["contracts"]}
    modules = {f"poolproof.{f.stem}" for f in (ROOT / "impl").glob("*.py") if f.stem != "__init__"}
    modules.add("poolproof.compat")
    assert contracts["what ships needs no proofs, no fuzzer and no command line"] == modules
    assert contracts["only the shadow runs the spec"] == modules - {
        *("poolproof.shadow", "poolproof.slot_pool"),
        *("poolproof.buffer_shadow", "poolproof.pool_state"),
        *("poolproof.checkpoint_shadow", "poolproof.checkpoint_state"),
    }


@pytest.mark.parametrize("room", sorted({*ROOMS} - {"kernels"}))
def test_a_room_imports_no_torch(room: str) -> None:
    module = __import__(f"poolproof.{room}", fromlist=["__path__"])
    names = [m.name for m in pkgutil.walk_packages(module.__path__, f"poolproof.{room}.")]
    assert names
    if room == "fuzz":
        names = [name for name in names if name not in ("poolproof.fuzz.cuda_device", "poolproof.fuzz.torch_memory")]
    program = (
        f"import importlib, sys\nfor n in {names!r}: importlib.import_module(n)\nassert 'torch' not in sys.modules"
    )
    run(sys.executable, "-c", program)


@pytest.mark.parametrize("room", ["spec", "impl"])
def test_what_ships_imports_no_solver(room: str) -> None:
    name = "poolproof" if room == "impl" else "poolproof.spec.slots"
    program = f"import sys, {name}\nassert not set(sys.modules) & {{'z3', 'torch', 'hypothesis', 'crosshair', 'typer'}}"
    run(sys.executable, "-c", program)


def test_functions_are_short_and_documented() -> None:
    problems = []
    for folder in [*ROOMS, "impl"]:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.FunctionDef):
                    continue
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                where = f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
                if length > 70:
                    problems.append(f"{where} has {length} lines")
                # There the class says what is wrong with the pool.
                is_override = file.name in ("canaries.py", "cache_canaries.py")
                documented = is_override or node.name.startswith("_") or ast.get_docstring(node) is not None
                if length > 3 and not documented:
                    problems.append(f"{where} has no docstring")
    assert problems == []


def test_the_bare_room_names_are_never_imported() -> None:
    found = []
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if {name.split(".")[0] for name in names} & {*ROOMS, "impl"}:
                    found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_no_file_names_a_machine() -> None:
    pattern = re.compile(r"(?<![\w.])/(?:work|tmp|root|home|opt)/|pythonhosted|pypi\.org/simple")
    listed = run("git", "ls-files").split() if (ROOT / ".git").exists() else []
    found = []
    for name in listed:
        path = ROOT / name
        if name == "LICENSE" or path.name == Path(__file__).name or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{name}:{number}")
    assert found == []
