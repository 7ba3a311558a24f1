"""What the codec loses, beside other ways to make a state small: `python bench/codec_accuracy.py [--json FILE]`.

States are random normal numbers, and those of gated delta rules (bench/recurrence.py). Needs torch and no GPU. Another
CPU or torch may sum in another order: figures are then the same to two or three digits. `--show FILE` prints a result
as Markdown; `--smoke` is a run at tiny sizes.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import codec as bench_codec  # finds poolproof.kernels where nothing is installed
import recurrence
import torch
from torch import Tensor

from poolproof.kernels.codec import dequantize, quantize

LARGEST_FP8 = 448.0
ROUNDS = 8
SETTLING = (1, 8, 32, 128)


@dataclass(frozen=True)
class Plan:
    """Sizes of a run."""

    steps: int = 4096
    after: int = 256
    heads: int = 8
    d_v: int = 128
    d_k: int = 128
    seed: int = 0


SMOKE = Plan(steps=24, after=16, heads=2, d_v=8, d_k=8)


def per_channel(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """The codec of spec/codec.py, of a state that is kept in a storage format."""
    return lambda state: dequantize(*quantize(state.to(dtype))).float()


def per_head(state: Tensor) -> Tensor:
    """int8 with one float32 scale for a head."""
    scale = state.abs().amax((-2, -1), keepdim=True) / 127
    return (state / scale).round().clamp(-127, 127) * scale


def fp8(state: Tensor) -> Tensor:
    """fp8 e4m3 with one float32 scale for a k-channel."""
    scale = state.abs().amax(-2, keepdim=True) / LARGEST_FP8
    return (state / scale).clamp(-LARGEST_FP8, LARGEST_FP8).to(torch.float8_e4m3fn).float() * scale


def bfloat16(state: Tensor) -> Tensor:
    """No codec, half the bytes of float32."""
    return state.bfloat16().float()


METHODS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Plan], float]]] = {
    "int8 per channel (float32 state)": (per_channel(torch.float32), lambda plan: 1 + 4 / plan.d_v),
    "int8 per channel (bfloat16 state)": (per_channel(torch.bfloat16), lambda plan: 1 + 2 / plan.d_v),
    "int8 per head": (per_head, lambda plan: 1 + 4 / (plan.d_v * plan.d_k)),
    "fp8 e4m3 per channel": (fp8, lambda plan: 1 + 4 / plan.d_v),
    "bfloat16": (bfloat16, lambda plan: 2.0),
}
"""Each way: a float32 state as it comes back, and the bytes that an element takes."""


def relative(found: Tensor, exact: Tensor) -> float:
    """The RMS of the difference over the RMS of what is exact."""
    difference = (found - exact).double().square().mean().sqrt()
    return float(difference / exact.double().square().mean().sqrt())


def errors(state: Tensor, back: Callable[[Tensor], Tensor], q: Tensor) -> dict[str, float]:
    """Of the state and of what is read out with queries (heads, d_k, queries); then of eight stores in a row."""
    loaded = back(state)
    again = loaded
    for _ in range(ROUNDS - 1):
        again = back(again)
    rms = state.double().square().mean().sqrt()
    return {
        "state": relative(loaded, state),
        "read_out": relative(loaded @ q, state @ q),
        "largest_over_rms": float((loaded - state).abs().max() / rms),
        "state_after_rounds_in_a_row": relative(again, state),
    }


def continued(state: Tensor, back: Callable[[Tensor], Tensor], later: recurrence.Inputs) -> dict[str, float]:
    """Of the read-outs of later steps: after one store and load, and with one before each eighth of them."""
    end, exact = recurrence.run(state, later)
    after, found = recurrence.run(back(state), later)
    part, current, outputs = later.steps // ROUNDS, state, []
    for n in range(ROUNDS):
        current, some = recurrence.run(back(current), later.part(n * part, (n + 1) * part))
        outputs.append(some)
    return {
        "later_read_outs": relative(found, exact),
        "later_state": relative(after, end),
        "later_read_outs_with_rounds": relative(torch.cat(outputs), exact[: part * ROUNDS]),
    }


def rows(plan: Plan) -> list[dict[str, Any]]:
    """One row for each kind of state and each way to store it."""
    made: list[dict[str, Any]] = []
    generator = torch.Generator().manual_seed(plan.seed)
    normal = torch.randn((plan.heads, plan.d_v, plan.d_k), generator=generator)
    q = torch.nn.functional.normalize(torch.randn((plan.heads, plan.d_k, 256), generator=generator), dim=1)
    for name, (back, size) in METHODS.items():
        about = {"states": "normal", "stored": name, "bytes_per_element": round(size(plan), 4)}
        made.append(about | rounded(errors(normal, back, q)))
    for kind in ("gdn", "kda"):
        whole = recurrence.inputs(kind, plan.steps + plan.after, plan.heads, plan.d_v, plan.d_k, plan.seed)
        later = whole.part(plan.steps, whole.steps)
        state, _ = recurrence.run(torch.zeros((plan.heads, plan.d_v, plan.d_k)), whole.part(0, plan.steps))
        for name, (back, size) in METHODS.items():
            about = {"states": kind, "stored": name, "bytes_per_element": round(size(plan), 4)}
            found = errors(state, back, later.q.permute(1, 2, 0)) | continued(state, back, later)
            made.append(about | rounded(found))
    return made


def nearest(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """int8 with the scale rounded to the nearest, as engines do: for what storing again and again does."""

    def back(state: Tensor) -> Tensor:
        scale = (state.abs().amax(-2, keepdim=True) / 127).to(dtype).float()
        return ((state / scale).round().clamp(-127, 127) * scale).to(dtype).float()

    return back


def settling(plan: Plan) -> list[dict[str, Any]]:
    """Normal states that are stored and loaded many times in a row, with no step between."""
    made = []
    generator = torch.Generator().manual_seed(plan.seed)
    normal = torch.randn((plan.heads, plan.d_v, plan.d_k), generator=generator)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for scale, back in (("up", per_channel(dtype)), ("nearest", nearest(dtype))):
            start = normal.to(dtype).float()
            current, errors = start, {}
            for n in range(1, max(SETTLING) + 1):
                before, current = current, back(current)
                if n in SETTLING:
                    errors[str(n)] = float(f"{relative(current, start):.4g}")
            growth = float((current * start).double().sum() / start.double().square().sum())
            row = {"dtype": str(dtype).removeprefix("torch."), "scale_rounded": scale, "state": errors}
            made.append(row | {"growth": round(growth, 5), "at_rest": torch.equal(before, current)})
    return made


def rounded(found: dict[str, float]) -> dict[str, float]:
    """To four digits."""
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def source_hash() -> str:
    """What was measured: a digest of the codec in torch, the recurrence and this file."""
    here = Path(__file__).resolve().parent
    files = (here.parent / "kernels" / "codec.py", here / "recurrence.py", here / "codec_accuracy.py")
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()[:16]


def is_stale(result: dict[str, Any]) -> bool:
    """Was a result made by other sources than the checkout's?"""
    return bool(result.get("source") != source_hash())


COLUMNS = {
    "states": "states",
    "stored": "stored as",
    "bytes_per_element": "bytes",
    "state": "state",
    "read_out": "read-out",
    "largest_over_rms": "largest / RMS",
    "state_after_rounds_in_a_row": "state, 8 in a row",
    "later_read_outs": "256 steps on",
    "later_read_outs_with_rounds": "256 steps, 8 stores",
}


def cells(row: dict[str, Any]) -> list[str]:
    """A row as text."""
    found = []
    for name in COLUMNS:
        value = row.get(name, "")
        is_error = isinstance(value, float) and name != "bytes_per_element"
        found.append(f"{value:.2e}" if is_error else f"{value:.3f}" if isinstance(value, float) else str(value))
    return found


def tables(result: dict[str, Any]) -> list[list[list[str]]]:
    """The figures as two tables of text: what is lost, and storing again and again."""
    first = [list(COLUMNS.values()), *map(cells, result["figures"])]
    second = [["dtype", "scale rounded", *(f"{n} in a row" for n in SETTLING), "growth", "at rest"]]
    for row in result["settling"]:
        errors = [f"{row['state'][str(n)]:.2e}" for n in SETTLING]
        rest = "yes" if row["at_rest"] else "no"
        second.append([row["dtype"], row["scale_rounded"], *errors, f"{row['growth']:.4f}", rest])
    return [first, second]


def markdown(result: dict[str, Any]) -> str:
    """The figures as two Markdown tables."""
    parts = []
    for lines, names in zip(tables(result), (2, 2), strict=True):
        made = ["| " + " | ".join(line) + " |" for line in lines]
        made.insert(1, "|---" * names + "|---:" * (len(lines[0]) - names) + "|")
        parts.append("\n".join(made))
    return "\n\n".join(parts)


def text(result: dict[str, Any]) -> str:
    """The figures for a terminal."""
    parts = []
    for lines in tables(result):
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        parts.append("\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines))
    return "\n\n".join(parts)


def measure(plan: Plan) -> dict[str, Any]:
    """One run."""
    torch.manual_seed(plan.seed)
    torch.set_num_threads(1)
    return {
        "what": "relative RMS errors against the float32 state, and the largest error over the state's RMS",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python bench/codec_accuracy.py {'--smoke ' if plan == SMOKE else ''}--json FILE",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "source": source_hash(),
        "kernels": bench_codec.source_hash(),
        "smoke": plan == SMOKE,
        "seed": plan.seed,
        "steps": plan.steps,
        "later_steps": plan.after,
        "heads": [plan.heads, plan.d_v, plan.d_k],
        "figures": rows(plan),
        "settling": settling(plan),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--smoke", action="store_true", help="tiny sizes")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print the table of a result as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    if options.show:
        print(markdown(json.loads(options.show.read_text())))
        return
    result = measure(SMOKE if options.smoke else Plan())
    print(text(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
