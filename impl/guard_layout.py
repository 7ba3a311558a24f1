"""Pages with a red zone at their end, which is nobody's: what writes there has left its page.

A tag in it says which id the page is bound to and since when, as int64; the rest is one byte again and again. A page
that is nobody's is poison, its zone too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from poolproof.spec.shapes import ITEM_BYTES, round_up
from poolproof.sub_pools import Resolved

ZONE: Final = 64
"""Bytes of a red zone at least."""

TAG: Final = 16
"""Bytes of a tag: id and time of the bind."""

CANARY: Final = 0xA5
POISON: Final = 0xFF
"""A NaN in every floating-point format, whatever the byte order."""


@dataclass(frozen=True)
class Zone:
    """Where the zone of a page lies.

    Attributes:
        body: bytes of the page, behind which the zone begins.
        tag: the first byte of its tag, which int64 can be read at.
        page_bytes: of a page with its zone.
    """

    body: int
    tag: int
    page_bytes: int

    def tagged(self, ids: NDArray[np.int64], born: NDArray[np.int64]) -> NDArray[np.uint8]:
        """[n, bytes of the zone]: the zones of pages that are bound to these ids since these times."""
        found = np.full((len(ids), self.page_bytes - self.body), CANARY, np.uint8)
        start = self.tag - self.body
        found[:, start : start + TAG] = np.stack([ids, born], axis=1).astype(np.int64).view(np.uint8)
        return found


def guarded(resolved: Resolved) -> tuple[Resolved, Zone]:
    """The sub-pool with a red zone behind each page.

    The stride of pages stays a whole number of the rows of which it was one, so that `token_rows` goes on to work.
    """
    start = round_up(resolved.page_bytes, TAG // 2)
    rows = [part.row_bytes for part in resolved.layout.parts if resolved.page_bytes % part.row_bytes == 0]
    items = [ITEM_BYTES[dtype] for dtype in resolved.dtypes]
    unit = lcm(TAG // 2, resolved.align, *items, *(rows if resolved.page_size > 1 else []))
    whole = round_up(start + ZONE, unit)
    return replace(resolved, page_bytes=whole), Zone(resolved.page_bytes, start, whole)
