"""Which guard of the schedule, or of the buffer beneath it, said no: by the line of the spec."""

from __future__ import annotations

import linecache
from functools import cache

from poolproof.spec import buffer, schedule
from poolproof.spec.language import Refused
from poolproof.spec.language.source import is_guard, parse, statements

_FILES = (buffer.__file__, schedule.__file__)


def guard_of(refusal: Refused) -> str:
    """The guard that refused, as it stands in the spec; of one over several lines the first."""
    trace, found = refusal.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in _FILES:
            line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
            found = line if line.startswith("require(") else found
        trace = trace.tb_next
    return found


@cache
def guards_in_all() -> int:
    """How many guards the actions of the schedule have, those of the buffer's actions that they perform included."""
    actions = {item.name: item for item in (*schedule.SPEC.actions, *buffer.SPEC.actions)}
    return sum(is_guard(statement) for item in actions.values() for statement in statements(parse(item.function)))
