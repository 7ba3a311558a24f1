"""`import poolproof` is light, and what it offers is all there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import poolproof


def modules_after(code: str) -> set[str]:
    """The names of all modules that a fresh interpreter has loaded after running the code."""
    shown = f"import sys\n{code}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True, text=True).stdout.split())


def test_importing_loads_nothing_heavy() -> None:
    loaded = modules_after("import poolproof as pp; dir(pp); pp.__version__; pp.Owner; pp.PoolError")
    assert not loaded & {"torch", "numpy", "poolproof.spec", "poolproof.slot_pool"}


def test_a_pool_needs_numpy_alone() -> None:
    loaded = modules_after("import poolproof; p = poolproof.SlotPool(4); p.free(p.alloc(2)); p.check(); p.stats()")
    assert "numpy" in loaded
    assert not {name for name in loaded if name.split(".")[0] in ("torch", "triton", "z3", "hypothesis")}
    assert not {name for name in loaded if name.startswith(("poolproof.spec", "poolproof.shadow", "poolproof.proofs"))}


def test_a_shadow_needs_the_spec_but_not_torch() -> None:
    loaded = modules_after("import poolproof; poolproof.SlotPool(4, shadow=True)")
    assert "poolproof.spec.slots" in loaded
    assert not loaded & {"torch", "z3"}


@pytest.mark.parametrize("name", poolproof.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(poolproof, name) is not None
    assert name in dir(poolproof)


def test_the_lists_of_names_agree() -> None:
    assert sorted(poolproof.__all__) == sorted([*poolproof._HOMES, "__version__"])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = poolproof.Missing
    assert not hasattr(poolproof, "__wrapped__")
