"""Made-up request traces: conversations that come back with a longer prompt, shared openings, heavy-tailed lengths."""

from __future__ import annotations

from random import Random
from typing import Final

from poolproof.fuzz.errors import SettingError
from poolproof.fuzz.mooncake import BLOCK_TOKENS, Request
from poolproof.spec.arithmetic import ceil_div

_OPENINGS: Final = 12
_LONGEST_OPENING: Final = 6
_LONGEST: Final = 131_072
_MOST_OUTPUT: Final = 2_000
_MEAN_GAP_MS: Final = 300.0
_COMES_BACK: Final = 0.45


class _Conversation:
    """What a conversation has said so far, in full blocks."""

    def __init__(self, blocks: list[int]) -> None:
        self.blocks = blocks


def make_requests(count: int, seed: int) -> list[Request]:
    """A trace of this many requests; the same arguments give the same trace.

    A new conversation begins with one of a few shared openings. Nearly every second request continues an earlier
    conversation, recent ones more often: its prompt begins with all full blocks of the one before. Prompt lengths
    are Pareto-distributed, arrivals a Poisson process of about three a second.

    Raises:
        SettingError: count is not positive.
    """
    if count < 1:
        raise SettingError(f"a synthetic trace of {count} requests; want at least one")
    random = Random(f"synthetic/{seed}")
    fresh = iter(range(1 << 62))
    openings = [[next(fresh) for _ in range(1 + random.randrange(_LONGEST_OPENING))] for _ in range(_OPENINGS)]
    open_conversations: list[_Conversation] = []
    requests, now = [], 0.0
    for _ in range(count):
        talk = _pick_conversation(random, open_conversations, openings)
        known = len(talk.blocks)
        added = max(1, int(700 * random.paretovariate(1.2)))
        length = min(known * BLOCK_TOKENS + added, max(_LONGEST, known * BLOCK_TOKENS + 1))
        ids = talk.blocks + [next(fresh) for _ in range(ceil_div(length, BLOCK_TOKENS) - known)]
        talk.blocks = ids[: length // BLOCK_TOKENS]
        output = min(_MOST_OUTPUT, max(1, int(120 * random.paretovariate(1.3))))
        requests.append(Request(int(now), length, output, tuple(ids)))
        now += random.expovariate(1 / _MEAN_GAP_MS)
    return requests


def _pick_conversation(random: Random, known: list[_Conversation], openings: list[list[int]]) -> _Conversation:
    if known and random.random() < _COMES_BACK:
        back = min(len(known), int(random.expovariate(1 / 40)) + 1)
        return known[-back]
    # Squaring prefers the first openings, as a few system prompts serve most requests.
    opening = openings[int(random.random() ** 2 * len(openings))]
    known.append(_Conversation(list(opening)))
    return known[-1]
