"""`poolproof bench`: run the benches of a checkout's bench/ folder, which is no part of the installed package."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from poolproof.cli.console import print_json

BENCHES: Final = {
    "codec": ("--gpu", "--smoke"),
    "codec_accuracy": ("--smoke",),
    "recall": ("--smoke",),
    "checkpoint_pool": ("--gpu", "--smoke"),
    "cache_payoff": ("--smoke",),
    "slot_pool": (),
    "unified_pool": ("--smoke",),
    "unified_gpu": ("--gpu", "--smoke"),
    "spec_step": (),
    "prove": (),
    "fuzz": (),
    "replay": (),
}
"""Every bench, and which of these options it knows. One that knows `--gpu` needs a device, or `--smoke`."""


class NoBenches(FileNotFoundError):
    """There is no bench/ folder."""


class UnknownBench(ValueError):
    """A name that no bench has, or a bench that cannot run as asked."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)


def bench(
    only: Annotated[list[str] | None, typer.Option(help="Benches to run, by name: codec, slot_pool, ...")] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Run those that need a CUDA device too.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Tiny sizes without a device; the times mean nothing.")
    ] = False,
    save_dir: Annotated[Path | None, typer.Option(help="Write each bench's figures there, as NAME.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure on this machine. Needs a checkout: figures are not part of the installed package."""
    if gpu and smoke:
        raise typer.BadParameter("a smoke run is one without a device", param_hint="--smoke")
    given = "--gpu" if gpu else "--smoke" if smoke else ""
    folder = find_folder([Path(__file__).resolve().parents[1], Path.cwd()])
    found, status = {}, 0
    for name in chosen(only or (), given):
        code, found[name] = run(folder / f"{name}.py", given if given in BENCHES[name] else "", as_json)
        status = max(status, code)
    if save_dir is not None:
        save(save_dir, found)
    if as_json:
        print_json({"verdict": "failed" if status else "measured", "benches": found})
    raise typer.Exit(status)


def save(folder: Path, found: dict[str, Any]) -> None:
    """Write the figures of every bench that has any, each to a file of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figures in found.items():
        if figures is not None:
            (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")


def find_folder(homes: Sequence[Path]) -> Path:
    """The bench/ folder of the first of these that has one.

    Raises:
        NoBenches: there is none.
    """
    for home in homes:
        if (home / "bench" / "codec.py").is_file():
            return home / "bench"
    raise NoBenches("the benches are not installed with the package: run this in a checkout, which has bench/codec.py")


def chosen(only: Sequence[str], given: str) -> list[str]:
    """The benches to run: those named, or all that can run with the option given.

    Raises:
        UnknownBench: a name is not known, or a bench that was named cannot run as asked.
    """
    for name in only:
        if name not in BENCHES:
            raise UnknownBench(f"no bench {name!r}; there are: {', '.join(BENCHES)}")
        if given == "--smoke" and given not in BENCHES[name]:
            raise UnknownBench(f"{name} has no smoke run: leave --smoke out")
        if "--gpu" in BENCHES[name] and not given:
            raise UnknownBench(f"{name} needs a CUDA device: give --gpu, or --smoke for a run whose times mean nothing")
    if only:
        return list(dict.fromkeys(only))
    if given == "--smoke":
        return [name for name, options in BENCHES.items() if given in options]
    return [name for name, options in BENCHES.items() if given or "--gpu" not in options]


def run(script: Path, option: str, as_json: bool) -> tuple[int, dict[str, Any] | None]:
    """Run one bench; its exit code and figures. What it prints is shown unless one JSON object is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, str(script), *([option] if option else []), "--json", str(file)]
        sys.stdout.flush()
        done = subprocess.run(command, stdout=subprocess.DEVNULL if as_json else None)
        return done.returncode, json.loads(file.read_text()) if file.exists() else None
