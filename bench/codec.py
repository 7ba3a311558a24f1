"""Speed of the codec's kernels beside a copy and beside torch: `python bench/codec.py --gpu | --smoke [--json FILE]`.

`--smoke` runs everything at tiny sizes in Triton's interpreter, where the times mean nothing. `--show FILE` prints the
tables of a result as Markdown. Needs torch, triton and numpy, and no installed poolproof.

Exit codes: 0 measured, whatever the figures; 1 a kernel gave other bytes than its torch form; 2 wrong use.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__" and "--smoke" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks at it when it is first imported

import torch
import triton
from torch import Tensor

if importlib.util.find_spec("poolproof") is None:  # not installed: the checkout's folders, under their import names
    for _name, _folder in (("poolproof", "impl"), ("poolproof.kernels", "kernels")):
        _home = Path(__file__).resolve().parent.parent / _folder
        _spec = importlib.util.spec_from_file_location(
            _name, _home / "__init__.py", submodule_search_locations=[str(_home)]
        )
        assert _spec is not None
        assert _spec.loader is not None
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])

from poolproof.kernels import codec
from poolproof.kernels.copy_windows import CopyWindows
from poolproof.kernels.dequantize_load import DequantizeLoad
from poolproof.kernels.quantize_store import QuantizeStore

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
GOALS = {
    ("store", "bfloat16"): (0.88, 0.92),
    ("store", "float32"): (0.92,),
    ("load", "bfloat16"): (0.92,),
}
"""Parts of the copy ceiling to be reached, by direction and storage format."""

CACHES = ("cold", "dirty", "warm")
"""What the L2 cache holds before a call: other data that was read, other data that was written, the call's own."""

HOST_GOAL = 10.0
"""Microseconds of host time that a call may take."""

ONE_SLOT_PART, ONE_SLOT_EXTRA = 0.9, 2.0
"""One slot is to take no longer than its bytes at this part of the ceiling, and so many microseconds."""


@dataclass(frozen=True)
class Shape:
    """The state of a kind of layer: (heads, d_v, d_k), of so many layers."""

    name: str
    layers: int
    heads: int
    d_v: int
    d_k: int


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    shapes: tuple[Shape, ...]
    slots: int
    curve: tuple[int, ...]
    window: tuple[int, int]
    copy_bytes: int
    flush_bytes: int
    repeats: int
    calls: int
    device: torch.device


FULL = Plan(
    shapes=(
        Shape("GDN", 36, 32, 128, 128),
        Shape("Mamba2", 24, 128, 64, 128),
        Shape("KDA", 20, 32, 128, 128),
        Shape("odd", 36, 24, 100, 48),
        Shape("odder", 36, 7, 33, 65),
    ),
    slots=32,
    curve=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    window=(8192, 3),
    copy_bytes=2**31,
    flush_bytes=2**28,
    repeats=20,
    calls=500,
    device=torch.device("cuda"),
)
SMOKE = Plan(
    shapes=(Shape("GDN", 1, 1, 8, 16), Shape("odd", 1, 2, 3, 5)),
    slots=2,
    curve=(1, 2),
    window=(6, 3),
    copy_bytes=2**12,
    flush_bytes=2**10,
    repeats=2,
    calls=1,
    device=torch.device("cpu"),
)


class Clock:
    """Times of calls, on the device and on the host, in microseconds."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._cuda = plan.device.type == "cuda"
        self._other = torch.zeros(plan.flush_bytes // 4, dtype=torch.int32, device=plan.device)

    def wait(self) -> None:
        """Until the device has done all it was given."""
        if self._cuda:
            torch.cuda.synchronize()

    def _prepare(self, cache: str) -> None:
        """Fill the L2 cache as one of `CACHES` says."""
        if cache == "cold":
            self._other.sum()
        elif cache == "dirty":
            self._other.zero_()

    def device(self, work: Callable[[], object], cache: str = "cold") -> float:
        """Median time between events around a call; the device is kept busy until all of it is queued."""
        for _ in range(3 if self._cuda else 1):
            work()
        self.wait()
        if not self._cuda:
            return self._on_the_cpu(work)
        pairs = []
        for _ in range(self.plan.repeats):
            pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            self._prepare(cache)
            torch.cuda._sleep(2_000_000)  # cycles, about a millisecond
            pair[0].record()
            work()
            pair[1].record()
            pairs.append(pair)
        self.wait()
        return statistics.median(start.elapsed_time(stop) * 1000 for start, stop in pairs)

    def _on_the_cpu(self, work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e6

    def host(self, work: Callable[[], object]) -> float:
        """Time until a call returns: the median of some runs of many calls, none of which waits for the device."""
        work()
        means = []
        for _ in range(5 if self._cuda else 1):
            self.wait()
            start = time.perf_counter()
            for _ in range(self.plan.calls):
                work()
            means.append((time.perf_counter() - start) / self.plan.calls * 1e6)
        self.wait()
        return statistics.median(means)


class Pools:
    """An active pool of random states, a checkpoint pool that holds their codes, and the kernels between them."""

    def __init__(self, shape: Shape, dtype: torch.dtype, slots: int, device: torch.device) -> None:
        generator = torch.Generator(device).manual_seed(0)
        size = (shape.layers, slots, shape.heads, shape.d_v, shape.d_k)
        self.shape, self.dtype, self.slots = shape, dtype, slots
        self.active = torch.empty(size, dtype=dtype, device=device).normal_(generator=generator)
        self.codes = torch.zeros(size, dtype=torch.int8, device=device)
        self.scales = torch.zeros((*size[:3], shape.d_k), dtype=dtype, device=device)
        self.store = QuantizeStore(self.active, self.codes, self.scales)
        self.load = DequantizeLoad(self.codes, self.scales, self.active)
        self._orders = [torch.randperm(slots, generator=torch.Generator().manual_seed(n)) for n in (1, 2)]
        everything = torch.arange(slots, device=device)
        self.store(everything, everything)

    def lists(self, count: int) -> tuple[Tensor, Tensor]:
        """So many slots of either pool, in no order, on the device."""
        source, target = (order[:count].to(self.active.device) for order in self._orders)
        return source, target

    def bytes(self, count: int) -> int:
        """What storing or loading so many slots reads and writes."""
        shape, width = self.shape, self.dtype.itemsize
        channels = count * shape.layers * shape.heads * shape.d_k
        return channels * shape.d_v * (width + 1) + channels * width

    def is_right(self, count: int) -> bool:
        """Do the kernels give the bytes of the torch form, on some of so many slots?"""
        source, target = self.lists(count)
        ends = [(0, 0), (-1, -1)]
        states = [self.active[layer, source[n]].clone() for layer, n in ends]
        self.store(source, target)
        self.load(target, source)
        right = True
        for (layer, n), state in zip(ends, states, strict=True):
            codes, scale = codec.quantize(state)
            right &= torch.equal(self.codes[layer, target[n]], codes)
            right &= torch.equal(self.scales[layer, target[n]], scale)
            right &= torch.equal(self.active[layer, source[n]], codec.dequantize(codes, scale))
        return right


def public_store(active: Tensor, codes: Tensor, scales: Tensor, source: Tensor, target: Tensor) -> None:
    """What engines write in torch: the scale is rounded to the nearest, the quotient clamped."""
    state = active[:, source].float()
    scale = (state.abs().amax(-2) / 127).clamp(min=torch.finfo(active.dtype).tiny).to(active.dtype)
    codes[:, target] = (state / scale.float().unsqueeze(-2)).round().clamp(-127, 127).to(torch.int8)
    scales[:, target] = scale


def public_load(codes: Tensor, scales: Tensor, active: Tensor, source: Tensor, target: Tensor) -> None:
    """What engines write in torch."""
    state = codes[:, source].float() * scales[:, source].float().unsqueeze(-2)
    active[:, target] = state.to(active.dtype)


def name_of(dtype: torch.dtype) -> str:
    """Without torch's prefix."""
    return str(dtype).removeprefix("torch.")


class Bench:
    """One run: every figure stands beside the copy ceiling that was measured with it."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.clock = plan, Clock(plan)
        self.right = True
        self.ceiling = self.copy_rate()

    def copy_rate(self) -> float:
        """Bytes read and written by a copy on the device, in TB/s."""
        source = torch.zeros(self.plan.copy_bytes // 4, dtype=torch.int32, device=self.plan.device).random_()
        target = torch.empty_like(source)
        return 2 * self.plan.copy_bytes / self.clock.device(lambda: target.copy_(source)) / 1e6

    def figures(self) -> dict[str, Any]:
        """Everything, in the order of the tables."""
        found: dict[str, Any] = {"copy": {"bytes": 2 * self.plan.copy_bytes, "TB_per_s": round(self.ceiling, 4)}}
        found["empty_microseconds"] = round(self.clock.device(lambda: None), 2)
        found["throughput"] = [row for dtype in DTYPES for row in self.throughput(dtype)]
        found["windows"] = self.windows()
        found["one_slot"] = [row for dtype in DTYPES for row in self.one_slot(dtype)]
        found["host"] = self.host()
        both = (torch.bfloat16, torch.float32)
        found["curve"] = [row for dtype in both for row in self.curve(dtype)]
        found["shapes"] = [row for shape in self.plan.shapes for dtype in both for row in self.shape(shape, dtype)]
        found["copy"]["TB_per_s_at_the_end"] = round(self.copy_rate(), 4)
        found["same_bytes"] = self.right
        return found

    def pools(self, shape: Shape, dtype: torch.dtype, slots: int) -> Pools:
        """Pools whose kernels were tried."""
        if self.plan.device.type == "cuda":
            torch.cuda.empty_cache()
        made = Pools(shape, dtype, slots, self.plan.device)
        self.right &= made.is_right(slots)
        return made

    def rate(self, count: int, microseconds: float) -> dict[str, float]:
        """A time as microseconds, TB/s and part of the ceiling."""
        rate = count / microseconds / 1e6
        return {
            "microseconds": round(microseconds, 2),
            "TB_per_s": round(rate, 4),
            "of_copy": round(rate / self.ceiling, 4),
        }

    def throughput(self, dtype: torch.dtype) -> list[dict[str, Any]]:
        """Both directions at the first shape, by kernel and by torch."""
        pools, rows = self.pools(self.plan.shapes[0], dtype, self.plan.slots), []
        source, target = pools.lists(self.plan.slots)
        active, codes, scales = pools.active, pools.codes, pools.scales
        works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "store": (
                lambda: pools.store(source, target),
                lambda: public_store(active, codes, scales, source, target),
            ),
            "load": (lambda: pools.load(target, source), lambda: public_load(codes, scales, active, target, source)),
        }
        for direction, (kernel, public) in works.items():
            count = pools.bytes(self.plan.slots)
            own, theirs = (self.rate(count, self.clock.device(work)) for work in (kernel, public))
            goals = GOALS.get((direction, name_of(dtype)), ())
            rows.append({"direction": direction, "dtype": name_of(dtype), "slots": self.plan.slots, "bytes": count})
            rows[-1] |= {"kernel": own, "torch": theirs}
            rows[-1]["times_faster"] = round(theirs["microseconds"] / own["microseconds"], 2)
            rows[-1]["goals"] = [{"of_copy": goal} for goal in goals]
        return rows

    def windows(self) -> dict[str, Any]:
        """The copy of conv windows."""
        plan = self.plan
        size = (plan.shapes[0].layers, plan.slots, *plan.window)
        generator = torch.Generator(plan.device).manual_seed(0)
        source = torch.empty(size, dtype=torch.bfloat16, device=plan.device).normal_(generator=generator)
        target = torch.zeros_like(source)
        lists = [torch.randperm(plan.slots, generator=torch.Generator().manual_seed(n)) for n in (1, 2)]
        first, second = (slots.to(plan.device) for slots in lists)
        copy = CopyWindows([source], [target])
        copy(first, second)
        self.right &= torch.equal(target[:, second], source[:, first])

        def public() -> None:
            target[:, second] = source[:, first]

        count = 2 * source.numel() * source.dtype.itemsize
        own, theirs = (self.rate(count, self.clock.device(work)) for work in (lambda: copy(first, second), public))
        return {"dtype": "bfloat16", "shape": list(size), "bytes": count, "kernel": own, "torch": theirs}

    def one_slot(self, dtype: torch.dtype) -> list[dict[str, Any]]:
        """One slot by numbers: device time, with other data in the L2 cache and with its own."""
        pools, rows = self.pools(self.plan.shapes[0], dtype, self.plan.slots), []
        last, count = self.plan.slots - 1, pools.bytes(1)
        goal = count / (ONE_SLOT_PART * self.ceiling) / 1e6 + ONE_SLOT_EXTRA
        works = {"store": lambda: pools.store(last, 0), "load": lambda: pools.load(0, last)}
        for direction, work in works.items():
            times = {cache: round(self.clock.device(work, cache), 2) for cache in CACHES}
            rows.append({"direction": direction, "dtype": name_of(dtype), "bytes": count, "goal": round(goal, 2)})
            rows[-1] |= {"microseconds": times, "met": {cache: found <= goal for cache, found in times.items()}}
        return rows

    def host(self) -> list[dict[str, Any]]:
        """Host time of a call by the form of its slots. The states have one layer, so that the device keeps up."""
        first = self.plan.shapes[0]
        shape = Shape(first.name, 1, first.heads, first.d_v, first.d_k)
        pools, rows = self.pools(shape, torch.bfloat16, self.plan.slots), []
        source, target = pools.lists(self.plan.slots)
        many = f"{self.plan.slots} slots"
        forms: dict[str, tuple[Any, Any, float | None]] = {
            "one slot, two numbers": (0, 0, HOST_GOAL),
            f"{many}, tensors on the device": (source, target, HOST_GOAL),
            f"{many}, lists": (source.tolist(), target.tolist(), None),
        }
        for direction, work in (("store", pools.store), ("load", pools.load)):
            for form, (one, other, goal) in forms.items():
                found = self.clock.host(lambda work=work, one=one, other=other: work(one, other))
                rows.append({"direction": direction, "slots": form, "microseconds": round(found, 2), "goal": goal})
                rows[-1]["met"] = None if goal is None else found <= goal
        return rows

    def curve(self, dtype: torch.dtype) -> list[dict[str, Any]]:
        """Both directions over numbers of slots, with as many layers as there is memory for."""
        most = self.plan.curve[-1]
        pools = self.pools(self._fitting(self.plan.shapes[0], dtype, most), dtype, most)
        return [row for count in self.plan.curve for row in self._both(pools, count)]

    def _fitting(self, shape: Shape, dtype: torch.dtype, slots: int) -> Shape:
        if self.plan.device.type != "cuda":
            return shape
        torch.cuda.empty_cache()
        layer = slots * shape.heads * shape.d_k * (shape.d_v * (dtype.itemsize + 1) + dtype.itemsize)
        layers = int(torch.cuda.mem_get_info()[0] * 0.8) // layer
        return Shape(shape.name, max(1, min(shape.layers, layers)), shape.heads, shape.d_v, shape.d_k)

    def shape(self, shape: Shape, dtype: torch.dtype) -> list[dict[str, Any]]:
        """Both directions at another shape."""
        return self._both(self.pools(shape, dtype, self.plan.slots), self.plan.slots)

    def _both(self, pools: Pools, count: int) -> list[dict[str, Any]]:
        shape, (source, target) = pools.shape, pools.lists(count)
        about = {"shape": shape.name, "layers": shape.layers, "heads": [shape.heads, shape.d_v, shape.d_k]}
        about |= {"dtype": name_of(pools.dtype), "slots": count, "bytes": pools.bytes(count)}
        works = {"store": lambda: pools.store(source, target), "load": lambda: pools.load(target, source)}
        return [
            {"direction": direction, **about, **self.rate(about["bytes"], self.clock.device(work))}
            for direction, work in works.items()
        ]


def source_hash(folder: Path = KERNELS) -> str:
    """What was measured: a digest of the kernels' sources."""
    texts = (file.name.encode() + file.read_bytes() for file in sorted(folder.glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def is_stale(result: dict[str, Any]) -> bool:
    """Was a result measured of other kernels than the checkout's?"""
    return bool(result.get("source") != source_hash())


def same_work(result: dict[str, Any], row: dict[str, Any]) -> list[float]:
    """The parts of the copy ceiling wherever the run measured the work of this row, each time in pools of its own."""
    alike = [r for r in result["curve"] if r["slots"] == row["slots"]]
    alike += [r for r in result["shapes"] if r["shape"] == result["shapes"][0]["shape"]]
    same = [r["of_copy"] for r in alike if (r["direction"], r["dtype"]) == (row["direction"], row["dtype"])]
    return [row["kernel"]["of_copy"], *same]


def goals(result: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Every goal: what, what was found, and is it met?"""
    found = []
    for row in result["throughput"]:
        what, parts = f"{row['direction']} {row['dtype']}", same_work(result, row)
        part = f"{min(parts):.3f} to {max(parts):.3f} of copy"
        for goal in (goal["of_copy"] for goal in row["goals"]):
            found.append((f"{what}: at least {goal} of copy", part, min(parts) >= goal))
    for row in result["one_slot"]:
        what = f"{row['direction']} {row['dtype']}, one slot, L2 cold: at most {row['goal']} us"
        found.append((what, f"{row['microseconds']['cold']:.2f} us", row["met"]["cold"]))
    for row in result["host"]:
        if row["goal"] is not None:
            what = f"{row['direction']}, {row['slots']}: at most {row['goal']:g} us on the host"
            found.append((what, f"{row['microseconds']:.2f} us", row["met"]))
    return found


def tables(result: dict[str, Any]) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    """The figures as tables of text: title, heads, rows."""

    def rates(part: dict[str, Any]) -> list[str]:
        return [f"{part['microseconds']:.1f}", f"{part['TB_per_s']:.3f}", f"{part['of_copy']:.3f}"]

    through = [
        [f"{r['direction']} {r['dtype']}", *rates(r["kernel"]), *rates(r["torch"])[:2], f"{r['times_faster']:.1f}"]
        for r in result["throughput"]
    ]
    copied = result["windows"]
    faster = copied["torch"]["microseconds"] / copied["kernel"]["microseconds"]
    through.append(
        ["copy conv windows", *rates(copied["kernel"]), *rates(copied["torch"])[:2], f"{faster:.1f}"],
    )
    single = [
        [f"{r['direction']} {r['dtype']}", *(f"{r['microseconds'][c]:.1f}" for c in CACHES), f"{r['goal']:.1f}"]
        for r in result["one_slot"]
    ]
    hosts = [[f"{r['direction']}, {r['slots']}", f"{r['microseconds']:.1f}"] for r in result["host"]]
    many = result["throughput"][0]["slots"]
    return [
        (
            f"{many} slots in no order; copy: {result['copy']['TB_per_s']:.3f} TB/s",
            ("work", "us", "TB/s", "of copy", "torch us", "torch TB/s", "times faster"),
            through,
        ),
        ("One slot, device time in us", ("work", "L2 cold", "L2 dirty", "L2 warm", "goal"), single),
        ("Host time of a call", ("work", "us"), hosts),
        ("Over numbers of slots, parts of copy", *_spread(result["curve"], "slots")),
        ("Over shapes, parts of copy", *_spread(result["shapes"], "shape")),
        (
            "Goals",
            ("goal", "found", "met"),
            [[what, part, "yes" if met else "NO"] for what, part, met in goals(result)],
        ),
    ]


def _spread(rows: list[dict[str, Any]], by: str) -> tuple[list[str], list[list[str]]]:
    """Rows with one direction and format each as a table with a column for each."""
    columns = list(dict.fromkeys(f"{row['direction']} {row['dtype']}" for row in rows))
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        name = str(row[by])
        if by == "shape":
            name += f" {row['layers']} x " + " x ".join(map(str, row["heads"]))
        lines.setdefault(name, {})[f"{row['direction']} {row['dtype']}"] = f"{row['of_copy']:.3f}"
    return [by, *columns], [[name, *(line[column] for column in columns)] for name, line in lines.items()]


def heading(result: dict[str, Any]) -> str:
    """Where and when."""
    where = f"{result['card']}, driver {result['driver']}, torch {result['torch']}, triton {result['triton']}"
    where = f"smoke run, its times mean nothing: {where}" if result["smoke"] else where
    stale = ", STALE: the kernels have changed since" if is_stale(result) else ""
    return f"{where}, {result['date']}, kernels {result['source']}{stale}"


def markdown(result: dict[str, Any]) -> str:
    """The figures as Markdown."""
    parts = [heading(result)]
    for title, heads, rows in tables(result):
        lines = ["| " + " | ".join(row) + " |" for row in [list(heads), *rows]]
        lines.insert(1, "|---" + "|---:" * (len(heads) - 1) + "|")
        parts += [f"{title}:", "\n".join(lines)]
    return "\n\n".join(parts)


def text(result: dict[str, Any]) -> str:
    """The figures for a terminal."""
    parts = [heading(result)]
    for title, heads, rows in tables(result):
        widths = [max(len(row[n]) for row in [list(heads), *rows]) for n in range(len(heads))]
        lines = [
            "  ".join(cell.rjust(width) if n else cell.ljust(width) for n, (cell, width) in enumerate(zipped)).rstrip()
            for zipped in (list(zip(row, widths, strict=True)) for row in [list(heads), *rows])
        ]
        parts.append("\n".join([title, *lines]))
    return "\n\n".join(parts)


def environment(plan: Plan) -> dict[str, str]:
    """The card and the versions."""
    card, driver = "no card (Triton's interpreter)", "none"
    if plan.device.type == "cuda":
        card, driver, tool = torch.cuda.get_device_name(), "unknown", shutil.which("nvidia-smi")
        if tool is not None:
            command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
            said = subprocess.run(command, capture_output=True, text=True).stdout.split()
            driver = said[0] if said else driver
    python = platform.python_version()
    return {"card": card, "driver": driver, "torch": torch.__version__, "triton": triton.__version__, "python": python}


def measure(plan: Plan) -> dict[str, Any]:
    """One run."""
    smoke = plan.device.type != "cuda"
    return {
        "what": "int8 state codec: bytes read and written, scales included, over the time between CUDA events; "
        "medians; `of_copy` is the part of what a copy on the device reads and writes a second",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python bench/codec.py {'--smoke' if smoke else '--gpu'} --json FILE",
        **environment(plan),
        "source": source_hash(Path(codec.__file__).resolve().parent),
        "smoke": smoke,
        "repeats": plan.repeats,
        **Bench(plan).figures(),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--gpu", action="store_true", help="measure on a CUDA device")
    kind.add_argument("--smoke", action="store_true", help="try everything at tiny sizes in Triton's interpreter")
    kind.add_argument("--show", type=Path, metavar="FILE", help="print the tables of a result as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    options = parser.parse_args()
    if options.show is not None:
        try:
            print(markdown(json.loads(options.show.read_text())))
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            parser.error(f"{options.show} is no result of this program: {error!r}")
        return
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json {options.json}: there is no folder {options.json.parent}")
    if options.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and torch finds none")
    result = measure(FULL if options.gpu else SMOKE)
    print(text(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not result["same_bytes"]:
        sys.exit("a kernel gave other bytes than its torch form: the figures are worth nothing")


if __name__ == "__main__":
    main()
