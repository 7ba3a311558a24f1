"""A small hybrid language model in plain torch, and how it is served from pages and slots.

Layers are gated delta rules ("r", the recurrence of bench/recurrence.py) and softmax attention ("a"). Attention is
local: a token sees itself and the `window - 1` tokens before it, so what is further back is known from the recurrent
states alone. A recurrent layer has a state (heads, d_v, d_k) and one conv window (channels, kernel - 1); an attention
layer has a key and a value a token.

`HybridModel` is one function for training and for serving: `model(tokens, past)` goes on from a past of any length.
`Serving` keeps that past where an engine would: keys and values in pages, states and conv windows in slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from poolproof.page_views import KVViews, StateViews
from poolproof.sub_pools import Checkpoints, Declaration, KVPages, StateSlots
from poolproof.unified_pool import UnifiedPool

BLOCK = 64
"""Tokens that the recurrence takes at once, and queries that attention does."""

Past: TypeAlias = list[tuple[Tensor, Tensor]]
"""What each layer keeps of the tokens so far, [batch, ...] in float32. Of a recurrent layer the state [heads, d_v, d_k]
and the conv window [channels, kernel - 1]; of attention the last keys and values, [tokens, kv_heads, head_dim], of at
most `window - 1` tokens."""


@dataclass(frozen=True)
class Sizes:
    """Of a model.

    Attributes:
        vocabulary: tokens.
        width: features of a token.
        layers: "r" and "a", from the bottom.
        heads, d_v, d_k: of the recurrence.
        kernel: taps of the convolution.
        kv_heads, head_dim, window: of attention.
    """

    vocabulary: int
    width: int = 64
    layers: str = "rar"
    heads: int = 2
    d_v: int = 32
    d_k: int = 32
    kernel: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    window: int = 16

    @property
    def channels(self) -> int:
        """That the convolution mixes: queries, keys and values of all heads."""
        return self.heads * (2 * self.d_k + self.d_v)

    def sub_pools(self, page_size: int, temporal_dtype: str, dtype: str) -> list[Declaration]:
        """What an engine declares for this model: "full", "state" and "checkpoint".

        Args:
            page_size: tokens a page.
            temporal_dtype: of the states.
            dtype: of conv windows, keys and values.
        """
        return [
            KVPages(
                *("full",),
                layers=self.layers.count("a"),
                kv_heads=self.kv_heads,
                head_dim=self.head_dim,
                dtype=dtype,
                page_size=page_size,
                grows="up",
            ),
            StateSlots(
                *("state",),
                layers=self.layers.count("r"),
                conv_shapes=[(self.channels, self.kernel - 1)],
                temporal_shape=(self.heads, self.d_v, self.d_k),
                conv_dtype=dtype,
                temporal_dtype=temporal_dtype,
                grows="down",
            ),
            Checkpoints("checkpoint", of="state", grows="float"),
        ]


# ---------------------------------------------------------------------------------------------------------- recurrence


def delta_rule(state: Tensor, q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Some steps of the recurrence in a few matrix products: see bench/recurrence.py for what it computes.

    With u_t = b_t (v_t - a_t S_{t-1} k_t), a step is S_t = a_t S_{t-1} + u_t k_t^T, and the u of a block solve one
    triangular system.

    Args:
        state: [..., d_v, d_k].
        q, k: [..., steps, d_k].
        v: [..., steps, d_v].
        log_gate, beta: [..., steps].

    Returns:
        Read-outs [..., steps, d_v], and the state after them.
    """
    total = log_gate.cumsum(-1)
    decay = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril().exp().tril()
    since = total.exp().unsqueeze(-1)
    system = ((k @ k.transpose(-1, -2)) * decay * beta.unsqueeze(-1)).tril(-1)
    wanted = beta.unsqueeze(-1) * (v - since * (k @ state.transpose(-1, -2)))
    u = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    out = since * (q @ state.transpose(-1, -2)) + ((q @ k.transpose(-1, -2)) * decay) @ u
    last = total[..., -1:]
    left = (last - total).exp().unsqueeze(-1)
    return out, last.exp().unsqueeze(-1) * state + u.transpose(-1, -2) @ (left * k)


class Recurrent(nn.Module):
    """A gated delta rule behind a short convolution."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.into = nn.Linear(sizes.width, sizes.channels, bias=False)
        self.taps = nn.Parameter(torch.randn(sizes.channels, sizes.kernel) / sizes.kernel**0.5)
        self.gates = nn.Linear(sizes.width, 2 * sizes.heads)
        self.norm = nn.RMSNorm(sizes.d_v)
        self.out = nn.Linear(sizes.heads * sizes.d_v, sizes.width, bias=False)
        with torch.no_grad():
            self.gates.weight.mul_(0.1)
            self.gates.bias.zero_()
            self.gates.bias[: sizes.heads] = -7.0  # a gate of about 0.999

    def forward(self, x: Tensor, state: Tensor, window: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mix x [batch, tokens, width]; then the state and the conv window after it."""
        s = self.sizes
        row = torch.cat([window, self.into(x).transpose(1, 2)], -1)
        mixed = functional.conv1d(row, self.taps.unsqueeze(1), groups=s.channels)
        mixed = functional.silu(mixed).reshape(len(x), s.heads, -1, x.shape[1]).transpose(2, 3)
        q, k, v = mixed[..., : s.d_k], mixed[..., s.d_k : 2 * s.d_k], mixed[..., 2 * s.d_k :]
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        gates = self.gates(x).transpose(1, 2)
        log_gate, beta = -functional.softplus(gates[:, : s.heads]), gates[:, s.heads :].sigmoid()
        outs = []
        for at in range(0, x.shape[1], BLOCK):
            parts = (part[:, :, at : at + BLOCK] for part in (q, k, v, log_gate, beta))
            out, state = delta_rule(state, *parts)
            outs.append(out)
        read = self.norm(torch.cat(outs, 2)).transpose(1, 2).flatten(2)
        return self.out(read), state, row[..., row.shape[-1] - s.kernel + 1 :]


# ----------------------------------------------------------------------------------------------------------- attention


class LocalAttention(nn.Module):
    """Softmax attention to the last tokens, with a learned bias for each distance."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        features = sizes.kv_heads * sizes.head_dim
        self.into = nn.Linear(sizes.width, 3 * features, bias=False)
        self.bias = nn.Parameter(torch.zeros(sizes.kv_heads, sizes.window))
        self.out = nn.Linear(features, sizes.width, bias=False)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mix x [batch, tokens, width]; then the keys and values of the past and of x."""
        s, old, tokens = self.sizes, keys.shape[1], x.shape[1]
        q, k, v = self.into(x).reshape(len(x), tokens, 3, s.kv_heads, s.head_dim).unbind(2)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        outs = []
        for at in range(0, tokens, BLOCK):
            end = min(at + BLOCK, tokens)
            first = max(old + at - s.window + 1, 0)
            near = slice(first, old + end)
            back = torch.arange(old + at, old + end)[:, None] - torch.arange(first, old + end)
            outs.append(self._attend(q[:, at:end], keys[:, near], values[:, near], back))
        return self.out(torch.cat(outs, 1).flatten(2)), keys, values

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, back: Tensor) -> Tensor:
        """Queries to some keys, `back` tokens before them [queries, keys]."""
        is_seen = (back >= 0) & (back < self.sizes.window)
        bias = self.bias[:, back.clamp(0, self.sizes.window - 1)].masked_fill(~is_seen, -torch.inf)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, keys) / math.sqrt(self.sizes.head_dim) + bias
        return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), values)


# --------------------------------------------------------------------------------------------------------------- model


class HybridModel(nn.Module):
    """Token ids in, logits of the next token out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        width = sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        kinds = {"r": Recurrent, "a": LocalAttention}
        self.mixers = nn.ModuleList(kinds[kind](sizes) for kind in sizes.layers)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * len(sizes.layers) + 1))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in sizes.layers
        )
        self.head = nn.Linear(width, sizes.vocabulary, bias=False)

    def nothing(self, batch: int) -> Past:
        """The past of a sequence that begins."""
        s = self.sizes
        recurrent = torch.zeros(batch, s.heads, s.d_v, s.d_k), torch.zeros(batch, s.channels, s.kernel - 1)
        keys = torch.zeros(batch, 0, s.kv_heads, s.head_dim)
        return [recurrent if kind == "r" else (keys, keys) for kind in s.layers]

    def forward(self, tokens: Tensor, past: Past | None = None) -> tuple[Tensor, Past]:
        """Go on from a past.

        Args:
            tokens: [batch, tokens], int64, at least one.
            past: of the tokens before; None where there are none.

        Returns:
            Logits [batch, tokens, vocabulary], and what the layers keep; of attention, keys and values of the past that
            was given and of all new tokens.
        """
        x = self.embed(tokens)
        now: Past = []
        for n, (mix, feed, (one, other)) in enumerate(
            zip(self.mixers, self.feeds, past or self.nothing(len(tokens)), strict=True)
        ):
            mixed, one, other = mix(self.norms[2 * n](x), one, other)
            now.append((one, other))
            x = x + mixed
            x = x + feed(self.norms[2 * n + 1](x))
        return self.head(self.norms[-1](x)), now


class Serving:
    """A model whose past is in a pool of `Sizes.sub_pools`: one request, or some tokens of one, at a time.

    Args:
        model: in float32; what is kept is rounded to the dtypes of the sub-pools.
        pool: with the sub-pools "full" and "state", on the CPU.
    """

    def __init__(self, model: HybridModel, pool: UnifiedPool) -> None:
        self.model, self.pool, self.page_size = model, pool, pool["full"].layout.page_size
        kv, states = pool.views("full"), pool.views("state")
        assert isinstance(kv, KVViews)
        assert isinstance(states, StateViews)
        self.kv, self.states = kv, states

    def step(self, tokens: Sequence[int], pages: Sequence[int], state: int, length: int) -> Tensor:
        """Compute some tokens of a request, as one step of the pool.

        Args:
            tokens: the next ones, at least one.
            pages: ids of its KV pages in order, with room for them.
            state: the id of its active slot; at length 0 it is not read.
            length: tokens that pages and state have seen.

        Returns:
            Logits [tokens, vocabulary].
        """
        size, end = self.page_size, length + len(tokens)
        first = max(length - self.model.sizes.window + 1, 0) // size * size
        read, written = pages[first // size : -(-length // size)], pages[length // size : -(-end // size)]
        reads = {"full": read, "state": [state]} if length else {"full": read}
        flight = self.pool.begin_step(reads, {"full": written, "state": [state]})
        slot, old, new = int(flight.writes["state"][0]), flight.reads["full"], flight.writes["full"]
        past = self._past(torch.tensor(old), slot, length - first) if length else None
        with torch.no_grad():
            logits, now = self.model(torch.tensor([tokens]), past)
        self._keep(now, torch.tensor(new), slot, length % size, len(tokens))
        flight.launched()
        flight.complete()
        flight.retire()
        found: Tensor = logits[0]
        return found

    def _past(self, pages: Tensor, slot: int, tokens: int) -> Past:
        """What the layers kept: of attention the first tokens of these pages."""
        found, kv, recurrent = Past(), iter(zip(self.kv.k, self.kv.v, strict=True)), 0
        for kind in self.model.sizes.layers:
            if kind == "r":
                one, other = self.states.temporal[recurrent, slot], self.states.conv[0][recurrent, slot]
                recurrent += 1
            else:
                one, other = (rows[pages].flatten(0, 1)[:tokens] for rows in next(kv))
            found.append((one.float().unsqueeze(0), other.float().unsqueeze(0)))
        return found

    def _keep(self, now: Past, pages: Tensor, slot: int, offset: int, tokens: int) -> None:
        """Write what the layers have now; the new tokens begin at this offset of the first of these pages."""
        kv, recurrent = iter(zip(self.kv.k, self.kv.v, strict=True)), 0
        place = torch.arange(offset, offset + tokens)
        at = pages[place // self.page_size], place % self.page_size
        for kind, (one, other) in zip(self.model.sizes.layers, now, strict=True):
            if kind == "r":
                self.states.temporal[recurrent, slot], self.states.conv[0][recurrent, slot] = one[0], other[0]
                recurrent += 1
            else:
                for rows, part in zip(next(kv), (one, other), strict=True):
                    rows[at] = part[0, -tokens:].to(rows.dtype)
