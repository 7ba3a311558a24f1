"""What can go wrong when a spec is written or read. Every error is loud and typed."""


class SpecError(Exception):
    """Base of all errors of the spec language."""


class Refused(SpecError):
    """A guard said no. The state is as it was: guards precede effects."""


class IllDefined(SpecError):
    """A table was read or written outside its domain, or a roster was given a member twice."""


class SymbolicBranch(SpecError, TypeError):
    """A symbolic value was used where Python needs a concrete one (`if`, `and`, `in`, chained comparison, ...)."""


class SortMismatch(SpecError, TypeError):
    """Two values of different sorts met, for example a slot id and a holder id."""


class GuardAfterEffect(SpecError):
    """`require` stands after an effect; a refusal there would leave a half-done step."""


class NotBoolean(SpecError, TypeError):
    """A guard, an invariant or a theorem gave something other than a truth value."""


class SourceRejected(SpecError):
    """A spec function uses Python that cannot be read symbolically; the message names the line."""


class GhostLeak(SpecError):
    """A guard, or a write to a real field, depends on a ghost: the ghost could not be erased."""
