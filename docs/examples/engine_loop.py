"""An engine loop in sixty lines: sequences are admitted, grow, attend through the page tables, and leave.

One `UnifiedPool` holds the keys and values of all tokens, and a recurrent state of each sequence. The loop keeps ids:
pages move underneath it, and nothing here has to know. It is the same loop on the CPU and on a GPU.

There is no model: keys and values are a function of layer, sequence and position (`truth`), so that plain attention
over the true ones says what must come out.

    python docs/examples/engine_loop.py [cpu | cuda]
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

import poolproof as pp
from poolproof.kernels.write_kv import WriteKV

LAYERS, HEADS, DIM, SIZE = 2, 2, 16, 4
"""SIZE is the tokens of a page."""


@dataclass(eq=False)
class Sequence:
    """A request: its first step writes `prompt` tokens, each further one a token, until there are `total`."""

    number: int
    prompt: int
    total: int
    length: int = 0
    pages: list[int] = field(default_factory=list)
    state: list[int] = field(default_factory=list)

    @property
    def target(self) -> int:
        """Its tokens after the next step."""
        return self.length + 1 if self.length else self.prompt

    @property
    def demand(self) -> dict[str, int]:
        """What it takes to begin."""
        return {"full": -(-self.prompt // SIZE), "state": 1}

    def token_ids(self, padded: int) -> list[int]:
        """The ids of its tokens after the next step, `id of the page * SIZE + offset`, and -1 for padding."""
        ids = [page * SIZE + offset for page in self.pages for offset in range(SIZE)]
        return ids[: self.target] + [-1] * (padded - self.target)


@dataclass
class Report:
    """The largest deviation from what should come out, the tokens written, and how often what was done."""

    deviation: float = 0.0
    tokens: int = 0
    steps: int = 0
    waits: int = 0
    restarts: int = 0
    moved: int = 0


# ------------------------------------------------------------------------------------------------------------- the loop


def serve(pool: pp.UnifiedPool, requests: Iterable[Sequence]) -> Report:
    """Serve all requests, each of which fits into the pool alone."""
    waiting, running, report = deque(requests), list[Sequence](), Report()
    writers = [WriteKV(k, v) for k, v in zip(pool.views("full").k, pool.views("full").v, strict=True)]
    while waiting or running:
        batch = []
        for s in running:
            try:
                s.pages += pool["full"].extend(s.pages[-1:], [s.length], [s.target]).tolist()
                batch.append(s)
            except pp.BufferExhausted:  # nothing has changed: it waits until others free pages
                report.waits += 1
        if running and not batch:  # all wait for one another: the youngest makes room, and begins again later
            youngest = running.pop()
            leave(pool, youngest)
            waiting.appendleft(Sequence(youngest.number, youngest.length, youngest.total))
            report.restarts += 1
            continue
        # Newcomers come when nobody waits, and their prompt fits: what compaction can make room for is counted.
        while waiting and len(batch) == len(running) and pool.fits(waiting[0].demand):
            new, given = waiting[0], pool.alloc(waiting.popleft().demand)
            new.pages, new.state = given["full"].tolist(), given["state"].tolist()
            running.append(new)
            batch.append(new)
        report.deviation = max(report.deviation, step(pool, batch, writers))
        report.steps, report.tokens = report.steps + 1, report.tokens + sum(s.target - s.length for s in batch)
        for s in batch:
            s.length = s.target
            if s.length == s.total:
                leave(pool, s)
                running.remove(s)
        report.moved += sum(len(move.ids) for move in pool.compact(moves=8))  # no step is open: a quiet moment
    return report


def leave(pool: pp.UnifiedPool, s: Sequence) -> None:
    """Its ids die at once. Whoever is given the pages comes behind the last step on the stream."""
    pool["full"].free(s.pages)
    pool["state"].free(s.state)


def step(pool: pp.UnifiedPool, batch: list[Sequence], writers: list[WriteKV]) -> float:
    """Write the new tokens of a batch and attend to all its tokens; how far what comes out is from the truth."""
    pages, slots = [page for s in batch for page in s.pages], [slot for s in batch for slot in s.state]
    written = [page for s in batch for page in s.pages[s.length // SIZE :]]
    flight = pool.begin_step(reads={"full": pages, "state": slots}, writes={"full": written, "state": slots})
    # The device's tables say from here on where everything is; padding becomes tokens of the sink.
    device, views, states = pool.buffer.device, pool.views("full"), pool.views("state").temporal[0, :, :, 0]
    ids = torch.tensor([s.token_ids(max(s.target for s in batch)) for s in batch], device=device)
    rows, at = pool["full"].translate(ids), pool["state"].translate(torch.tensor(slots, device=device))
    number, old, new = torch.tensor([(s.number, s.length, s.target) for s in batch], device=device).T[..., None]
    position = torch.arange(ids.shape[1], device=device)
    is_new, is_token = (position >= old) & (position < new), position < new
    places, outputs = (rows // SIZE, rows % SIZE), []
    for layer, write in enumerate(writers):
        keys, values = truth(layer, number, position)  # a model would have computed those of the new tokens
        write(keys[is_new], values[is_new], rows[is_new])
        query = truth(layer, number, new)[0][:, 0]
        outputs.append(attention(query, views.k[layer][places], views.v[layer][places], is_token))
    states[at] += (keys * is_new[..., None, None]).sum(1)  # the state of a sequence is the sum of its keys so far
    sums = states[at]
    flight.launched()  # all of it is on the stream
    flight.complete()  # the host need not wait for the device: all that the pool does from now on comes behind
    flight.retire()
    return deviation(outputs, sums, number, position, new)


def attention(query: Tensor, k: Tensor, v: Tensor, is_token: Tensor) -> Tensor:
    """Queries [batch, heads, dim] attend to keys and values [batch, tokens, heads, dim]."""
    scores = torch.einsum("bhd,bthd->bht", query, k) / DIM**0.5
    weights = scores.masked_fill(~is_token[:, None], -torch.inf).softmax(-1)
    return torch.einsum("bht,bthd->bhd", weights, v)


# ------------------------------------------------------------------------------------------------------------ the truth


def truth(layer: int, number: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of tokens: [*shape, HEADS, DIM] where number and position together have this shape."""
    element = torch.arange(HEADS * DIM, device=number.device).reshape(HEADS, DIM)
    phase = (7.1 * layer + 3.7 * number + 0.9 * position)[..., None, None] + 1.3 * element
    return phase.sin(), (2 * phase + 1).cos()


def deviation(outputs: list[Tensor], states: Tensor, number: Tensor, position: Tensor, new: Tensor) -> float:
    """How far the outputs of all layers, and the states, are from those of the true keys and values."""
    worst, is_token = 0.0, position < new
    for layer, output in enumerate(outputs):
        query, (keys, values) = truth(layer, number, new)[0], truth(layer, number, position)
        q, k, v = (part.transpose(1, 2).double() for part in (query, keys, values))
        dense = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=is_token[:, None, None])
        worst = max(worst, float((output - dense[:, :, 0]).abs().max()))
    return max(worst, float((states - (keys * is_token[..., None, None]).sum(1)).abs().max()))


# ------------------------------------------------------------------------------------------------------------ the story


def open_pool(device: str, total_bytes: int = 50_000) -> pp.UnifiedPool:
    """Keys and values grow up from one end of the bytes, states down from the other."""
    f32 = "float32"
    full = pp.KVPages("full", layers=LAYERS, kv_heads=HEADS, head_dim=DIM, dtype=f32, page_size=SIZE, grows="up")
    shape, zero = (HEADS, 1, DIM), "on_handout"
    state = pp.StateSlots(
        "state", layers=1, conv_shapes=[], temporal_shape=shape, conv_dtype=f32, temporal_dtype=f32, zero=zero
    )
    return pp.UnifiedPool(total_bytes, [full, state], device=device)


def some_requests(seed: int = 0, count: int = 16) -> list[Sequence]:
    """Prompts and answers of random lengths."""
    draw = random.Random(seed)
    lengths = [(draw.randint(1, 40), draw.randint(1, 40)) for _ in range(count)]
    return [Sequence(number, prompt, prompt + answer) for number, (prompt, answer) in enumerate(lengths)]


def main(device: str | None = None) -> Report:
    """Serve some requests; the pool is empty and healthy in the end."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    pool = open_pool(device)
    report = serve(pool, some_requests())
    assert pool.check() == []
    assert pool.stats().used_bytes == 0
    assert report.moved > 0
    print(f"on {device}: {report}")
    return report


if __name__ == "__main__":
    torch.set_num_threads(1)  # for tensors as small as these, threads only wait for one another
    main(*sys.argv[1:])
