"""A gated delta rule in plain torch, with random weights: where states come from that have a layer's own structure.

For each head, with a state S of (d_v, d_k):

    S_t = S_{t-1} diag(a_t) (I - b_t k_t k_t^T) + b_t v_t k_t^T        o_t = S_t q_t

Keys and queries have length one. "gdn" has one gate a_t for a head, "kda" one for each k-channel. There is no trained
model in it: token features are normal, channels of a head differ in size, neighbouring tokens are mixed as by a short
convolution, and gates are drawn as they are initialised in public code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Inputs:
    """What a layer's recurrence is fed: the first axis is time.

    Attributes:
        q, k: (steps, heads, d_k), of length one.
        v: (steps, heads, d_v).
        gate: (steps, heads, 1) or (steps, heads, d_k), what stays of the state.
        beta: (steps, heads), how much of the new value is written.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    gate: Tensor
    beta: Tensor

    @property
    def steps(self) -> int:
        """How long they are."""
        return self.k.shape[0]

    def part(self, first: int, end: int) -> Inputs:
        """Some steps of them."""
        return Inputs(*(x[first:end] for x in (self.q, self.k, self.v, self.gate, self.beta)))


def inputs(kind: str, steps: int, heads: int, d_v: int, d_k: int, seed: int) -> Inputs:
    """Inputs of a "gdn" or a "kda" layer; everything follows from the seed."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def features(width: int) -> Tensor:
        """Channels of different size and offset, mixed over four neighbouring tokens, through SiLU."""
        x = normal(steps + 3, heads, width) * (normal(heads, width) * 0.5).exp() + normal(heads, width) * 0.3
        taps = normal(4, heads, width) * 0.5
        return functional.silu(sum((taps[n] * x[n : n + steps] for n in range(4)), torch.zeros(())))

    q, k = (functional.normalize(features(d_k), dim=-1) for _ in range(2))
    v = features(d_v)
    wide = 1 if kind == "gdn" else d_k
    size = torch.rand((heads, 1), generator=generator) * 15 + 1
    time_step = torch.empty((heads, wide)).uniform_(0.001, 0.1, generator=generator)
    bias = time_step + torch.log(-torch.expm1(-time_step))  # softplus of it is the time step
    gate = torch.exp(-size * functional.softplus(normal(steps, heads, wide) * 0.5 + bias))
    return Inputs(q, k, v, gate, torch.sigmoid(normal(steps, heads)))


def run(state: Tensor, given: Inputs) -> tuple[Tensor, Tensor]:
    """The state (heads, d_v, d_k) after some steps, and their read-outs (steps, heads, d_v)."""
    outputs = torch.empty_like(given.v)
    for t in range(given.steps):
        key = given.k[t].unsqueeze(-1)
        decayed = state * given.gate[t].unsqueeze(-2)
        change = (given.v[t].unsqueeze(-1) - decayed @ key) * given.beta[t, :, None, None]
        state = torch.baddbmm(decayed, change, key.transpose(-1, -2))
        outputs[t] = (state @ given.q[t].unsqueeze(-1)).squeeze(-1)
    return state, outputs
