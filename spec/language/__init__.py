"""The language in which specs are written: one function, read by running it, by tracing it to logic, by exploring it.

Only the standard library is used. See docs/spec.md for a guided tour.
"""

from poolproof.spec.language.batches import Batch, batch
from poolproof.spec.language.errors import (
    GhostLeak,
    GuardAfterEffect,
    IllDefined,
    NotBoolean,
    Refused,
    SortMismatch,
    SourceRejected,
    SpecError,
    SymbolicBranch,
)
from poolproof.spec.language.items import (
    Item,
    Parameter,
    action,
    assumption,
    define,
    ensures,
    initial,
    invariant,
    item_of,
    perform,
    step,
    theorem,
    variant,
)
from poolproof.spec.language.logic import and_, between, counts, exists, forall, iff, implies, ite, not_, or_, require
from poolproof.spec.language.readings import after, enabled
from poolproof.spec.language.run import IdRange, Map, Roster, Rosters, Set, Sets, ids
from poolproof.spec.language.sorts import Bool, Chosen, Enumeration, Ghost, Given, Id, Int, Size
from poolproof.spec.language.specification import Specification
from poolproof.spec.language.state import Field, State, fields_of

__all__ = [
    "Batch",
    "Bool",
    "Chosen",
    "Enumeration",
    "Field",
    "Ghost",
    "GhostLeak",
    "Given",
    "GuardAfterEffect",
    "Id",
    "IdRange",
    "IllDefined",
    "Int",
    "Item",
    "Map",
    "NotBoolean",
    "Parameter",
    "Refused",
    "Roster",
    "Rosters",
    "Set",
    "Sets",
    "Size",
    "SortMismatch",
    "SourceRejected",
    "SpecError",
    "Specification",
    "State",
    "SymbolicBranch",
    "action",
    "after",
    "and_",
    "assumption",
    "batch",
    "between",
    "counts",
    "define",
    "enabled",
    "ensures",
    "exists",
    "fields_of",
    "forall",
    "ids",
    "iff",
    "implies",
    "initial",
    "invariant",
    "ite",
    "item_of",
    "not_",
    "or_",
    "perform",
    "require",
    "step",
    "theorem",
    "variant",
]
