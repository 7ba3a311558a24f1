"""Two replies to the same call, compared: equal, or different in a way that is declared, or an error.

Codes and scales are compared channel by channel, each difference held to what its declaration says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

Json = dict[str, Any]

BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
TIE = 127 * 2.0**-24
"""How far from half-way, in steps, both forms of the quotient may still round to different sides."""

LEAST_MAXIMUM = 1e-8


def tensor_of(value: Json) -> Tensor:
    """A tensor from its dtype, shape and bytes."""
    dtype = getattr(torch, value["dtype"])
    raw = torch.from_numpy(np.frombuffer(bytes.fromhex(value["hex"]), np.uint8).copy())
    return raw.view(dtype).view(value["shape"]) if raw.numel() else torch.empty(value["shape"], dtype=dtype)


@dataclass
class Figures:
    """How often the codecs differ, and how far.

    Attributes:
        channels: that are finite and have a maximum of 1e-8 or more; `scales` of them differ.
        codes: of channels with the same scale; `ties` of them differ.
        elements: of all these channels; `loaded` of them differ.
        farthest: the largest distance of what is loaded, in steps of our scale.
    """

    channels: int = 0
    scales: int = 0
    codes: int = 0
    ties: int = 0
    elements: int = 0
    loaded: int = 0
    farthest: float = 0.0

    def line(self) -> str:
        """In words."""
        return (
            f"{self.scales} of {self.channels} scales differ ({self.scales / max(self.channels, 1):.1%}); "
            f"{self.ties} of {self.codes} codes of equal scales ({self.ties / max(self.codes, 1):.4%}); "
            f"{self.loaded} of {self.elements} loaded numbers ({self.loaded / max(self.elements, 1):.1%}), "
            f"by {self.farthest:.3f} steps at most"
        )


@dataclass
class Comparison:
    """Compares replies, and counts the differences.

    Attributes:
        found: how often each declared difference occurred.
        figures: of the codecs, by dtype, and kind of state where all of a call is of one kind.
    """

    found: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Figures] = field(default_factory=dict)

    def reply(self, call: Json, theirs: Json, ours: Json, states: Any) -> None:
        """Compare two replies; `states` makes the states of specs. AssertionError for what is not declared."""
        tag = call.get("tag")
        told = f"{call}\ntheirs {shown(theirs)}\nours   {shown(ours)}"
        if "lost" in call or "twice" in call:
            assert self.explain_tail(call, theirs, ours), told
            self.found[tag] += 1
        elif tag is not None:
            self.explain_tag(tag, call, theirs, ours, told)
        else:
            assert theirs["error"] is None, told
            assert ours["error"] is None, told
            assert theirs["available"] == ours["available"], told
            self.values(call, theirs["value"], ours["value"], states, told)

    def explain_tag(self, tag: str, call: Json, theirs: Json, ours: Json, told: str) -> None:
        """A call that shows a difference: we refuse it and change nothing, or take what the peer refuses."""
        assert ours["error"] == call["ours"], told
        assert theirs["available"] == ours["available"], told
        if call.get("undo"):
            assert ours["changed"] is False, told
        if tag == "types of errors":
            assert theirs["error"] is not None, told
            if theirs["error"] == ours["error"]:  # both raise the same: no difference
                return
        elif call["ours"] is None and "fallback" in call:
            assert theirs["error"] is not None, told
        elif tag == "free_slots is a copy":
            assert theirs["changed"] is True, told
        else:
            assert theirs["error"] is None, told
        self.found[tag] += 1

    def explain_tail(self, call: Json, theirs: Json, ours: Json) -> bool:
        """Slots that the peer has lost, or has handed out twice."""
        place = 0 if call["on"] == "active" else 1
        if theirs["error"] or ours["error"]:
            return False
        if "lost" in call:
            return bool(theirs["available"][place] == ours["available"][place] - call["lost"])
        return theirs["value"] is not None and ours["value"] is None

    # ----------------------------------------------------------------------------------------------------- good replies

    def values(self, call: Json, theirs: Any, ours: Any, states: Any, told: str) -> None:
        """What two good calls gave."""
        op = call["op"]
        if op in ("alloc", "look"):
            self.ids(theirs, ours, op, told)
        elif op in ("load", "get", "copy", "quantize"):
            self.bytes(call, theirs, ours, states, told)
        elif op == "surface":
            self.surface(theirs, ours)
        elif op == "factory":
            theirs, ours = dict(theirs), dict(ours)
            self.found["log records"] += theirs.pop("logged") != ours.pop("logged")
            assert theirs == ours, told
        else:
            assert theirs == ours, told

    def surface(self, theirs: Json, ours: Json) -> None:
        """We have every name, and take the same arguments; what we take on top is by name, with a default."""
        for home, names in theirs.items():
            for name, parameters in names.items():
                where = f"{home}.{name}"
                assert name in ours[home], where
                if parameters is None:
                    continue
                count, mine = len(parameters), ours[home][name]
                assert [each[0] for each in mine[:count]] == [each[0] for each in parameters], where
                for there, here in zip(parameters, mine, strict=False):
                    assert there[1:] == here[1:], where
                assert all(kind == "KEYWORD_ONLY" and default is not None for _, kind, default in mine[count:]), where

    def ids(self, theirs: Any, ours: Any, op: str, told: str) -> None:
        """As many ids, in another order; everything else the same."""
        if theirs is None or ours is None:
            assert theirs == ours, told
            return
        if op == "look":
            theirs, ours = dict(theirs), dict(ours)
            a, b = theirs.pop("free"), ours.pop("free")
            assert theirs == ours, told
            theirs, ours = a, b
        assert (theirs["dtype"], theirs["shape"]) == (ours["dtype"], ours["shape"]), told
        self.found["order of ids"] += theirs != ours

    def bytes(self, call: Json, theirs: Json, ours: Json, states: Any, told: str) -> None:
        """Codes, scales and what is loaded, by channel; windows bit for bit."""
        assert theirs.get("conv") == ours.get("conv"), told
        a, b = ({key: tensor_of(side[key]) for key in ("codes", "scale", "loaded")} for side in (theirs, ours))
        for key in a:
            assert (a[key].dtype, a[key].shape) == (b[key].dtype, b[key].shape), told
        kind = call["spec"]["kind"] if "spec" in call else "mixed"
        name = f"{str(a['scale'].dtype).removeprefix('torch.')} {kind}"
        figures = self.figures.setdefault(name, Figures())
        Channels(states(call), a, b, figures, told).compare(self.found)


def shown(reply: Json) -> str:
    """A reply, cut short."""
    return str(reply)[:300]


class Channels:
    """The channels of some states, as both sides have them.

    Args:
        x: the states (..., d_v, d_k).
        theirs, ours: "codes", "scale" (..., 1, d_k) and "loaded" of either side.
        figures: counts to add to, where what is loaded has the dtype of the scales.
        told: what to say where something is not as declared.
    """

    def __init__(
        self, x: Tensor, theirs: dict[str, Tensor], ours: dict[str, Tensor], figures: Figures, told: str
    ) -> None:
        self.x, self.told, self.figures = x.double(), told, figures
        self.theirs, self.ours = theirs, ours
        self.amax = self.x.abs().amax(-2, keepdim=True)
        self.s, self.scale = theirs["scale"].double(), ours["scale"].double()
        self.lost = ~self.x.isfinite().all(-2, keepdim=True)
        self.small = ~self.lost & ((self.amax < LEAST_MAXIMUM) | (self.s == 0))
        self.plain = ~self.lost & ~self.small
        self.is_same_scale = self.s == self.scale
        self.codes_differ = theirs["codes"] != ours["codes"]
        self.bits_differ = self.bits(theirs["loaded"]) != self.bits(ours["loaded"])

    def bits(self, tensor: Tensor) -> Tensor:
        """As integers."""
        return tensor.contiguous().view(BITS[tensor.dtype])

    def compare(self, found: Counter[str]) -> None:
        """Every channel is equal, or differs as is declared."""
        self.compare_lost(found)
        self.compare_small(found)
        self.compare_scales(found)
        self.compare_ties(found)
        self.compare_loaded(found)

    def claim(self, holds: Tensor, where: Tensor, what: str) -> None:
        """Assert that something holds in some channels or of some elements."""
        wrong = ~holds & where
        assert not wrong.any(), f"{what}: {int(wrong.sum())} do not hold\n{self.told}"

    def compare_lost(self, found: Counter[str]) -> None:
        """All NaNs, on both sides; ours are one NaN, with the codes 0."""
        where = self.lost.expand_as(self.x)
        ours = self.ours["loaded"]
        canonical = torch.full_like(ours, torch.nan)
        self.claim(self.theirs["loaded"].isnan(), where, "theirs are NaNs")
        self.claim(self.bits(ours) == self.bits(canonical), where, "ours are the NaN of all devices")
        self.claim(self.scale.isnan(), self.lost, "our scale is a NaN")
        self.claim(self.ours["codes"] == 0, where, "our codes are 0")
        scales_differ = self.bits(self.theirs["scale"]) != self.bits(self.ours["scale"])
        found["channels that are not finite"] += bool(
            ((self.bits_differ | self.codes_differ | scales_differ) & where).any()
        )

    def compare_small(self, found: Counter[str]) -> None:
        """Ours are near; theirs have a larger scale, or none."""
        where = self.small.expand_as(self.x)
        distance = (self.ours["loaded"].double() - self.x).abs()
        self.claim(distance <= self.scale * (0.5 + TIE) + self.spacing(self.x), where, "ours are near")
        self.claim((self.s >= self.scale) | (self.s == 0), self.small, "their scale is larger, or 0")
        found["small channels"] += bool((where & (self.bits_differ | self.codes_differ)).any())

    def compare_scales(self, found: Counter[str]) -> None:
        """Ours is theirs, or the next number up."""
        difference = self.bits(self.ours["scale"]) - self.bits(self.theirs["scale"])
        self.claim((difference == 0) | (difference == 1), self.plain, "our scale is theirs, or the next")
        self.claim(self.scale * 127 >= self.amax, self.plain, "our scale is not too low")
        found["scale rounded up"] += bool((self.plain & ~self.is_same_scale).any())
        self.figures.channels += int(self.plain.sum())
        self.figures.scales += int((self.plain & ~self.is_same_scale).sum())

    def compare_ties(self, found: Counter[str]) -> None:
        """With one scale, codes differ by 1 where the quotient lies half-way between them."""
        where = (self.plain & self.is_same_scale).expand_as(self.x)
        quotient = torch.where(where, self.x / self.scale, 0)
        from_half = (quotient - quotient.floor() - 0.5).abs()
        apart = (self.theirs["codes"].int() - self.ours["codes"].int()).abs()
        self.claim((apart == 1) & (from_half <= TIE), where & self.codes_differ, "codes differ at ties alone")
        ties = int((where & self.codes_differ).sum())
        found["ties"] += ties > 0
        self.figures.codes += int(where.sum())
        self.figures.ties += ties

    def compare_loaded(self, found: Counter[str]) -> None:
        """Equal codes and scales load the same, infinities apart; others are as near as two roundings let them be."""
        theirs, ours = self.theirs["loaded"].double(), self.ours["loaded"].double()
        where = self.plain.expand_as(self.x)
        largest = torch.finfo(self.ours["loaded"].dtype).max
        infinite = where & theirs.isinf()
        self.claim(ours.isfinite(), where, "what is finite stays finite")
        self.claim(ours.abs() >= largest * 0.97, infinite, "ours are the largest number")
        found["largest numbers"] += bool(infinite.any())
        equal = where & self.is_same_scale & ~self.codes_differ & ~infinite
        self.claim(~self.bits_differ, equal, "equal codes and scales load the same")
        cut = torch.maximum(self.s / 2, self.amax - 127 * self.s)
        bound = self.scale * (0.5 + TIE) + cut * (1 + TIE) + self.spacing(torch.maximum(ours.abs(), self.x.abs())) * 2
        distance = (theirs - ours).abs()
        near = where & ~infinite
        self.claim(distance <= bound, near, "what is loaded is near")
        if self.ours["loaded"].dtype == self.ours["scale"].dtype:
            self.figures.elements += int(where.sum())
            self.figures.loaded += int((where & self.bits_differ).sum())
            steps = torch.where(near, distance / self.scale, 0)
            self.figures.farthest = max(self.figures.farthest, float(steps.max()) if steps.numel() else 0.0)

    def spacing(self, values: Tensor) -> Tensor:
        """At least the distance from a number to the next one, in the dtype of what is loaded."""
        limits = torch.finfo(self.ours["loaded"].dtype)
        return values.abs() * limits.eps + limits.smallest_normal * limits.eps
