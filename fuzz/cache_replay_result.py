"""What a replay through a prefix cache was asked for, and what it has shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.mooncake import BLOCK_TOKENS
from poolproof.spec.models import MODELS, ModelError, model_named
from poolproof.sub_pools import Codec
from poolproof.violation import Violation

Policy: TypeAlias = Literal["blocks", "ends", "both"]
"""Where checkpoints are kept; see `CacheSetting`."""
POLICIES: Final[tuple[Policy, ...]] = ("blocks", "ends", "both")
CODECS: Final[tuple[Codec, ...]] = ("int8", "none")
STATE_DTYPES: Final = ("bfloat16", "float16", "float32")
DEFAULT_BYTES: Final = 64 << 30
PAGE_SIZE: Final = 64
EVERY: Final = {"blocks": 1, "both": 8}
"""Blocks from one checkpoint to the next unless said otherwise."""
PREFILL_US: Final = 20.0
"""Virtual time of a token that is computed in a prompt, unless said otherwise: an assumption, nothing measured."""


@dataclass(frozen=True)
class CacheSetting:
    """A replay through a prefix cache.

    A trace tells which blocks of 512 tokens prompts have in common, so checkpoints at ends of blocks are all that can
    ever be hit: what stands in a block that is not full is known to be in other prompts only where all of it is.

    Attributes:
        model: the name of a shipped model that has recurrent states.
        total_bytes: of all buffers together.
        tp: tensor parallel ranks; the pools are those of one.
        page_size: tokens a KV page, a divisor of 512.
        policy: "blocks": a checkpoint at the end of every `every`-th full block of a prompt, while it is prefilled.
            "ends": one, at the end of the last full block of the prompt. "both": these two together.
        every: blocks from one checkpoint to the next; 0 for 1 under "blocks" and 8 under "both".
        checkpoints: "int8", or "none" for plain copies of states.
        static: None: one buffer, whose bytes flex. Otherwise the part of the bytes, between 0 and 1, that are a buffer
            of checkpoints alone.
        state_dtype: of the temporal states; conv windows have the model's.
        max_batch: most requests running at once.
        check_every: the cache and its pools are checked after this many virtual steps, and at the end.
        prefill_us: virtual microseconds of a token that is computed in a prompt.

    Raises:
        SettingError: a value is out of range, or the model is not shipped or has no recurrent states.
    """

    model: str
    total_bytes: int = DEFAULT_BYTES
    tp: int = 1
    page_size: int = PAGE_SIZE
    policy: Policy = "blocks"
    every: int = 0
    checkpoints: Codec = "int8"
    static: float | None = None
    state_dtype: str = "bfloat16"
    max_batch: int = 256
    check_every: int = 256
    prefill_us: float = PREFILL_US

    def __post_init__(self) -> None:
        self._check_model()
        for name, known in (("policy", POLICIES), ("checkpoints", CODECS), ("state_dtype", STATE_DTYPES)):
            if getattr(self, name) not in known:
                raise SettingError(f"{name} = {getattr(self, name)!r}; want one of {', '.join(known)}")
        for name, least in (("total_bytes", 1), ("tp", 1), ("every", 0), ("max_batch", 1), ("check_every", 1)):
            if getattr(self, name) < least:
                raise SettingError(f"{name} = {getattr(self, name)}; want at least {least}")
        if self.page_size < 1 or BLOCK_TOKENS % self.page_size:
            raise SettingError(f"pages of {self.page_size} tokens do not divide a block of {BLOCK_TOKENS}")
        if self.every and self.policy == "ends":
            raise SettingError(f"every = {self.every}: policy 'ends' keeps one checkpoint a prompt; leave it out")
        if self.static is not None and not 0 < self.static < 1:
            raise SettingError(f"static = {self.static}; want a part of the bytes, above 0 and below 1")
        if not self.prefill_us >= 0:
            raise SettingError(f"prefill_us = {self.prefill_us}; want at least 0")

    def _check_model(self) -> None:
        try:
            model = model_named(self.model)
        except ModelError as problem:
            raise SettingError(str(problem)) from None
        if not model.count("LB"):
            fit = ", ".join(name for name, each in MODELS.items() if each.count("LB"))
            raise SettingError(f"{self.model} has no recurrent states to keep checkpoints of; these have: {fit}")

    @property
    def blocks_apart(self) -> int:
        """Blocks from one checkpoint to the next; 0 where there is one at the end alone."""
        return 0 if self.policy == "ends" else self.every or EVERY[self.policy]

    @property
    def described(self) -> str:
        """The policy in words."""
        apart = f"at the end of every {_nth(self.blocks_apart)}full block of a prompt"
        last = "at the end of the last full block of a prompt"
        return {"blocks": apart, "ends": last, "both": f"{apart}, and {last}"}[self.policy]

    def stops(self, prompt: int) -> list[int]:
        """The lengths at which a prompt of so many tokens is given checkpoints, ascending."""
        last = prompt // BLOCK_TOKENS * BLOCK_TOKENS
        step = self.blocks_apart * BLOCK_TOKENS
        found = set(range(step, last + 1, step)) if step else set[int]()
        if last and self.policy != "blocks":
            found.add(last)
        return sorted(found)


@dataclass
class CacheResult:
    """The figures of a replay.

    Attributes:
        setting: what was asked for.
        page_bytes: by sub-pool.
        state_bytes: of a slot that holds a state as it is.
        static_bytes: of the buffer of checkpoints; 0 where all bytes flex.
        requests: requests of the trace.
        done: those that ran to their end.
        refusals: requests that not even empty pools could hold.
        waits: requests that waited because there was no room.
        hits: requests that began with a prefix out of the cache.
        prompt_tokens: tokens of the prompts of the requests that were admitted.
        cached_tokens: those of them that came out of the cache.
        kept: checkpoints stored.
        deduplicated: prefixes that had a checkpoint already, so that nothing was stored.
        skipped: prefixes that were not kept, because no checkpoint slot was to be had.
        duplicate_pages: KV pages that requests gave back because the cache had them already.
        evictions: checkpoints evicted.
        evicted_pages: KV pages that went with them.
        peak: most bytes bound at once, by sub-pool, and of all "together"; seen after each prefill and each step.
        cached_at_end: checkpoints in the cache when the last request has ended.
        steps: virtual steps.
        most_running: most requests running at once.
        checks: how often cache and pools were checked.
        seconds: how long it took.
        virtual_seconds: virtual time between the first arrival and the end of the last request.
        violations: the replay ends at the first.
    """

    setting: CacheSetting
    page_bytes: dict[str, int] = field(default_factory=dict)
    state_bytes: int = 0
    static_bytes: int = 0
    requests: int = 0
    done: int = 0
    refusals: int = 0
    waits: int = 0
    hits: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    kept: int = 0
    deduplicated: int = 0
    skipped: int = 0
    duplicate_pages: int = 0
    evictions: int = 0
    evicted_pages: int = 0
    peak: dict[str, int] = field(default_factory=dict)
    cached_at_end: int = 0
    steps: int = 0
    most_running: int = 0
    checks: int = 0
    seconds: float = 0.0
    virtual_seconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)

    @property
    def prefilled_tokens(self) -> int:
        """Tokens of prompts that had to be computed."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def request_hit_rate(self) -> float:
        """The share of requests that began with a prefix out of the cache."""
        return _part(self.hits, self.done)

    @property
    def token_hit_rate(self) -> float:
        """The share of prompt tokens that came out of the cache."""
        return _part(self.cached_tokens, self.prompt_tokens)

    @property
    def capacity_factor(self) -> Fraction:
        """Checkpoints of this kind in the bytes of one plain copy of a state; 1 for plain copies."""
        return Fraction(self.state_bytes, self.page_bytes["checkpoint"])

    @property
    def passed(self) -> bool:
        """Nothing was violated, and every request that was not refused ran to its end."""
        return not self.violations and self.done + self.refusals == self.requests

    def plain(self) -> dict[str, Any]:
        """The result for JSON."""
        asked, factor = self.setting, self.capacity_factor
        plain: dict[str, Any] = {"verdict": "passed" if self.passed else "failed", "model": asked.model}
        plain |= {"bytes": asked.total_bytes, "static_bytes": self.static_bytes, "static": asked.static}
        plain |= {"checkpoints": asked.checkpoints, "policy": asked.policy, "every": asked.blocks_apart}
        for name in ("state_dtype", "tp", "page_size", "max_batch", "prefill_us"):
            plain[name] = getattr(asked, name)
        plain |= {"page_bytes": self.page_bytes, "state_bytes": self.state_bytes}
        plain |= {"capacity_factor": str(factor), "capacity_factor_decimal": round(float(factor), 6)}
        for name in ("requests", "done", "refusals", "waits", "hits", "prompt_tokens", "cached_tokens"):
            plain[name] = getattr(self, name)
        plain |= {"prefilled_tokens": self.prefilled_tokens, "request_hit_rate": round(self.request_hit_rate, 6)}
        plain |= {"token_hit_rate": round(self.token_hit_rate, 6)}
        for name in ("kept", "deduplicated", "skipped", "duplicate_pages", "evictions", "evicted_pages"):
            plain[name] = getattr(self, name)
        plain |= {"cached_at_end": self.cached_at_end, "peak_bytes": self.peak}
        plain |= {"steps": self.steps, "most_running": self.most_running, "checks": self.checks}
        plain |= {"seconds": round(self.seconds, 3), "virtual_seconds": round(self.virtual_seconds, 3)}
        plain["violations"] = [{"theorem": v.theorem, "claim": v.name, "text": v.text} for v in self.violations]
        return plain


Progress = Callable[[str, int, int], None]


def _nth(n: int) -> str:
    return "" if n <= 1 else f"{n}th " if n > 3 else {2: "2nd ", 3: "3rd "}[n]


def _part(some: int, of: int) -> float:
    return some / of if of else 0.0
