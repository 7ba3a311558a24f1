"""Terms of the spec language as SMT-LIB text.

Two forms of the same terms:

* *symbolic*: sizes are unknown constants and quantifiers stay quantifiers: `unsat` here is a proof for all sizes;
* *bounded*: sizes are numerals and quantifiers are written out: this is where counterexamples are found.

The text is what the solver reads, what the cache is keyed by, and what a second solver gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from poolproof.spec.language.errors import SpecError
from poolproof.spec.language.sorts import is_enumeration
from poolproof.spec.language.terms import TRUE, Term, Version, name_of

_SPELLED = {"and": "and", "or": "or", "not": "not", "=>": "=>", "=": "=", "<": "<", "<=": "<=", "ite": "ite"} | {
    op: op for op in ("+", "-", "*", "div", "mod")
}


PRODUCT_LEMMAS = (
    "(declare-fun times (Int Int) Int)",
    "(assert (forall ((i Int) (j Int) (p Int)) (! (=> (and (< 0 p) (< i j)) (<= (+ (times i p) p) (times j p))) "
    ":pattern ((times i p) (times j p)))))",
    "(assert (forall ((i Int) (j Int) (p Int)) (! (=> (and (< 0 p) (= j (+ i 1))) (= (times j p) (+ (times i p) p))) "
    ":pattern ((times i p) (times j p)))))",
    "(assert (forall ((p Int)) (! (= (times 0 p) 0) :pattern ((times 0 p)))))",
)
"""What proofs know of index * size: true of integers (proofs/products.py proves each), and all that they need.

Z3's own nonlinear reasoning left byte disjointness undecided; over an uninterpreted product with these lemmas it is
decided in milliseconds.
"""


class Printer:
    """Collects declarations and definitions while it prints terms.

    `sizes` maps the names of size fields to numerals, and of given fields to their values, for the bounded form; None
    means the symbolic form.
    """

    def __init__(self, sizes: Mapping[str, Any] | None = None) -> None:
        self.sizes = sizes
        self.lines: list[str] = []
        self._declared: set[str] = set()
        self._sorts: dict[str, Any] = {}
        self._macros: dict[int, str] = {}
        self._free: dict[int, frozenset[Any]] = {}
        self._text: dict[int, str] = {}
        self._bound = 0
        self._keep: list[Any] = []  # identities above stay valid only while the objects live

    def fork(self) -> Printer:
        """A printer that goes on from here; what either prints later does not reach the other."""
        twin = Printer(self.sizes)
        twin.lines, twin._declared, twin._macros = [*self.lines], {*self._declared}, {**self._macros}
        twin._sorts = {**self._sorts}
        twin._free, twin._text, twin._bound, twin._keep = {**self._free}, {**self._text}, self._bound, [*self._keep]
        return twin

    # ------------------------------------------------------------------------------------------------ declarations

    def _declare(self, name: str, line: str) -> str:
        if name not in self._declared:
            self._declared.add(name)
            self.lines.append(line)
        return name

    def sort(self, sort: Any) -> str:
        """The SMT-LIB name of a sort; enumerations are declared as datatypes at their first use."""
        if sort is bool:
            return "Bool"
        if not is_enumeration(sort):
            return "Int"
        name = name_of(sort)
        if self._sorts.setdefault(name, sort) is not sort:
            raise SpecError(f"two enumerations are both named {name}; give them different names")
        members = " ".join(f"({member_name(member)})" for member in sort)
        return self._declare(name, f"(declare-datatypes (({name} 0)) (({members})))")

    def constant(self, name: str, sort: Any) -> str:
        """A declared constant."""
        sort_text = self.sort(sort)
        return self._declare(name, f"(declare-fun {name} () {sort_text})")

    def _table(self, version: Version) -> str:
        name = field_name(version.field)
        value = self.sort(version.value_sort)
        if self.sizes is not None and self.sizes.get(version.field):
            body = _cases("key!", [literal(item) for item in self.sizes[version.field]])
            return self._declare(name, f"(define-fun {name} ((key! Int)) {value} {body})")
        keys = " ".join(self.sort(sort) for sort in version.key_sorts)
        return self._declare(name, f"(declare-fun {name} ({keys}) {value})")

    # ------------------------------------------------------------------------------------------------- free names

    def _free_in(self, node: Term | Version) -> frozenset[Any]:
        """The bound variables that occur free in a term or table version."""
        known = self._free.get(id(node))
        if known is None:
            known = self._free_in_version(node) if isinstance(node, Version) else self._free_in_term(node)
            self._free[id(node)] = known
            self._keep.append(node)
        return known

    def _free_in_term(self, term: Term) -> frozenset[Any]:
        if term.op == "var":
            return frozenset(term.args)
        inside = frozenset().union(*(self._free_in(arg) for arg in term.args if isinstance(arg, Term | Version)))
        if term.op in ("forall", "exists"):
            return inside - frozenset(term.args[0].args)
        if term.op == "counts":
            return inside - frozenset(term.args[1].args)
        if term.op == "at":
            return (self._free_in(term.args[0]) - frozenset(term.args[1].args)) | self._free_in(term.args[2])
        return inside

    def _free_in_version(self, version: Version) -> frozenset[Any]:
        if version.parent is None:
            return frozenset()
        keys, *rest = version.write[1:]
        inside = frozenset().union(*(self._free_in(part) for part in rest))
        own = frozenset().union(*(self._free_in(key) for key in keys))
        inside = inside - own if version.write[0] == "where" else inside | own
        return inside | self._free_in(version.parent)

    # --------------------------------------------------------------------------------------------------- printing

    def term(self, term: Term, env: dict[Any, str] | None = None) -> str:
        """The text of a term; `env` maps bound variables to the text that stands for them."""
        env = env or {}
        closed = not (env.keys() & self._free_in(term))
        if closed and id(term) in self._text:
            return self._text[id(term)]
        text = self._print(term, env)
        if closed:
            self._text[id(term)] = text
        return text

    def _print(self, term: Term, env: dict[Any, str]) -> str:
        op, args = term.op, term.args
        if op == "lit":
            self.sort(term.sort)
            return literal(args[0])
        if op == "var":
            return env[args[0]]
        if op == "param":
            return self.constant(argument_name(args[0]), term.sort)
        if op == "field":
            if self.sizes is not None and args[0] in self.sizes:
                self.sort(term.sort)
                return literal(self.sizes[args[0]])
            return self.constant(field_name(args[0]), term.sort)
        if op == "as":
            return self.term(args[0], env)
        if op == "read":
            return self._read(args[0], tuple(self.term(key, env) for key in args[1:]), env)
        if op in ("forall", "exists"):
            return self._quantifier(term, env)
        if op == "counts":
            return self._count(term, env)
        if op == "at":
            return self.term(args[0], {**env, args[1].args[0]: self.term(args[2], env)})
        if op == "*" and not any(arg.op == "lit" for arg in args):
            return self._product(args[0], args[1], env)
        return f"({_SPELLED[op]} {' '.join(self.term(arg, env) for arg in args)})"

    def _product(self, left: Term, right: Term, env: dict[Any, str]) -> str:
        """A product of two unknowns: symbolic, by its lemmas; bounded, by a given table's values one by one."""
        if self.sizes is None:
            for line in PRODUCT_LEMMAS:
                self._declare(line, line)
            return f"(times {self.term(left, env)} {self.term(right, env)})"
        for table, other in ((right, left), (left, right)):
            if table.op == "read" and self.sizes is not None and table.args[0].field in self.sizes:
                key, factor = self.term(table.args[1], env), self.term(other, env)
                values = [f"(* {factor} {literal(v)})" for v in self.sizes[table.args[0].field]]
                return values[int(key)] if key.isdigit() and int(key) < len(values) else _cases(key, values)
        return f"(* {self.term(left, env)} {self.term(right, env)})"

    def _read(self, version: Version, keys: tuple[str, ...], env: dict[Any, str]) -> str:
        if version.parent is None:
            return self._base_read(version, keys)
        if self._free_in(version):
            return self._case(version, keys, env)
        if id(version) not in self._macros:
            names = [f"key!{index}" for index in range(len(keys))]
            body = self._case(version, tuple(names), {})
            name = f"{field_name(version.field)}!{len(self._macros)}"
            sorts = [self.sort(sort) for sort in version.key_sorts]
            declared = " ".join(f"({key} {sort})" for key, sort in zip(names, sorts, strict=True))
            self.lines.append(f"(define-fun {name} ({declared}) {self.sort(version.value_sort)} {body})")
            self._macros[id(version)] = name
            self._keep.append(version)
        return f"({self._macros[id(version)]} {' '.join(keys)})"

    def _base_read(self, version: Version, keys: tuple[str, ...]) -> str:
        given = None if self.sizes is None else self.sizes.get(version.field)
        if given is not None and keys[0].isdigit() and int(keys[0]) < len(given):
            self.sort(version.value_sort)
            return literal(given[int(keys[0])])
        return f"({self._table(version)} {' '.join(keys)})"

    def _case(self, version: Version, keys: tuple[str, ...], env: dict[Any, str]) -> str:
        """The value of one version at a key: the write on top where it applies, the parent elsewhere."""
        assert version.parent is not None
        below = self._read(version.parent, keys, env)
        if version.write[0] == "set":
            places = [self.term(key, env) for key in version.write[1]]
            test = _join("and", [f"(= {key} {place})" for key, place in zip(keys, places, strict=True)])
            value = self.term(version.write[2], env)
        else:
            _, variables, condition, result = version.write
            inner = {**env, **{v.args[0]: key for v, key in zip(variables, keys, strict=True)}}
            test, value = self.term(condition, inner), self.term(result, inner)
        return value if test == "true" else f"(ite {test} {value} {below})"

    def _quantifier(self, term: Term, env: dict[Any, str]) -> str:
        variable, low, high, body = term.args[:4]
        if self.sizes is None:
            return self._nest(term, env)
        parts = []
        for value, test in self._instances(low, high, env):
            inside = self.term(body, {**env, variable.args[0]: value})
            if test is not None:
                inside = f"({'=>' if term.op == 'forall' else 'and'} {test} {inside})"
            parts.append(inside)
        return _join("and" if term.op == "forall" else "or", parts)

    def _nest(self, term: Term, env: dict[Any, str]) -> str:
        """Quantifiers of one kind directly inside one another, as one over several variables: one trigger sees all."""
        declared, tests = [], []
        inner: Term = term
        while True:
            if inner.op == term.op:
                variable, low, high, body = inner.args[:4]
                self._bound += 1
                name = f"x!{self._bound}"
                declared.append(f"({name} {self.sort(variable.sort)})")
                test = self._range(name, low, high, env)
                tests += [] if test is None else [test]
                env, inner = {**env, variable.args[0]: name}, body
            elif term.op == "forall" and inner.op == "=>" and _leads_to_forall(inner.args[1]):
                tests.append(self.term(inner.args[0], env))
                inner = inner.args[1]
            else:
                break
        inside, test = self.term(inner, env), _join("and", tests)
        if test != "true":
            inside = f"({'=>' if term.op == 'forall' else 'and'} {test} {inside})"
        return f"({term.op} ({' '.join(declared)}) {inside})"

    def _range(self, name: str, low: Term | None, high: Term | None, env: dict[Any, str]) -> str | None:
        if low is None or high is None:
            return None
        return f"(and (<= {self.term(low, env)} {name}) (< {name} {self.term(high, env)}))"

    def _instances(self, low: Term | None, high: Term | None, env: dict[Any, str]) -> Iterable[tuple[str, str | None]]:
        """The values that a quantifier ranges over in the bounded form, each with the test that it is in range."""
        assert self.sizes is not None
        top = max((size for size in self.sizes.values() if isinstance(size, int)), default=2) + 1
        if low is None or high is None:
            return [(literal(value), None) for value in range(-1, top)]
        ends = self.term(low, env), self.term(high, env)
        if all(end.isdigit() for end in ends):
            return [(str(value), None) for value in range(int(ends[0]), int(ends[1]))]
        return [(str(v), f"(and (<= {ends[0]} {v}) (< {v} {ends[1]}))") for v in range(top)]

    def _count(self, term: Term, env: dict[Any, str]) -> str:
        if self.sizes is None:
            raise SpecError("counts has no first-order form; it stands only as the whole body of an invariant")
        counter, variable, low, high, body = term.args
        ones = []
        for value, test in self._instances(low, high, env):
            inside = self.term(body, {**env, variable.args[0]: value})
            ones.append(f"(ite {inside if test is None else f'(and {test} {inside})'} 1 0)")
        total = f"(+ {' '.join(ones)})" if len(ones) > 1 else ones[0] if ones else "0"
        return f"(= {self.term(counter, env)} {total})"


def _leads_to_forall(term: Term) -> bool:
    while term.op == "=>":
        term = term.args[1]
    return term.op == "forall"


def _cases(key: str, values: list[str]) -> str:
    """The value at a key of a table that is written out; beyond its end it does not matter which."""
    text = values[-1] if values else "0"
    for index in range(len(values) - 2, -1, -1):
        text = f"(ite (= {key} {index}) {values[index]} {text})"
    return text


def _join(op: str, parts: list[str]) -> str:
    neutral = "true" if op == "and" else "false"
    kept = [part for part in parts if part != neutral]
    return neutral if not kept else kept[0] if len(kept) == 1 else f"({op} {' '.join(kept)})"


def field_name(name: str) -> str:
    """The SMT-LIB symbol of a state field."""
    return f"state.{name}"


def argument_name(name: str) -> str:
    """The SMT-LIB symbol of a parameter."""
    return f"arg.{name}"


def member_name(member: Any) -> str:
    """The SMT-LIB symbol of an enumeration's member."""
    return f"{name_of(type(member))}.{member.name}"


def literal(value: Any) -> str:
    """A concrete value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_enumeration(type(value)):
        return member_name(value)
    return str(int(value)) if value >= 0 else f"(- {-int(value)})"


def with_witnesses(term: Term, positive: bool = True) -> Term:
    """A goal in which every positive `exists` that names a witness is replaced by the claim about that witness."""
    op, args = term.op, term.args
    if op == "exists" and positive and args[4] is not None:
        return with_witnesses(args[4])
    if op in ("and", "or"):
        return Term(op, tuple(with_witnesses(arg, positive) for arg in args), bool)
    if op == "not":
        return Term(op, (with_witnesses(args[0], not positive),), bool)
    if op == "=>":
        return Term(op, (with_witnesses(args[0], not positive), with_witnesses(args[1], positive)), bool)
    if op == "forall":
        return Term(op, (*args[:3], with_witnesses(args[3], positive)), bool)
    return term


def script(printer: Printer, hypotheses: list[Term], goals: dict[str, Term], switches: bool = False) -> str:
    """A script that asserts the hypotheses and, behind a switch for each goal, that the goal fails.

    With a single goal it is asserted without a switch, unless one is asked for: `unsat` then means the goal is proved.
    """
    asserted = [printer.term(term) for term in hypotheses]
    denied = {name: printer.term(goal) for name, goal in goals.items()}
    lines = ["(set-logic ALL)", *printer.lines]
    lines += [f"(assert {text})" for text in asserted if text != "true"]
    if len(denied) == 1 and not switches:
        lines += [f"(assert (not {text}))" for text in denied.values()]
    else:
        lines += [f"(declare-fun |fails {name}| () Bool)" for name in denied]
        lines += [f"(assert (=> |fails {name}| (not {text})))" for name, text in denied.items()]
    return "\n".join([*lines, "(check-sat)", ""])


__all__ = ["TRUE", "Printer", "argument_name", "field_name", "literal", "member_name", "script", "with_witnesses"]
