"""Reading an engine's file: what it means, and what each mistake is told."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from poolproof.proofs.engine_config import EngineConfigError, engine_of, read_engine
from poolproof.spec.models import ModelError
from poolproof.spec.shapes import Buffer

HEAD = """
[engine]
name = "e"
total_bytes = "8 GiB"
max_context = 4096
index = { bits = 32, unit = "elements" }
"""

FULL = """
[[sub_pool]]
name = "full"
kind = "kv"
grows = "up"
layers = 2
kv_heads = 2
head_dim = 64
dtype = "bfloat16"
page_size = 16
"""

WINDOW = FULL.replace('"full"', '"window"').replace('"kv"', '"window"').replace('"up"', '"down"') + "window = 128\n"

STATE = """
[[sub_pool]]
name = "state"
kind = "state"
grows = "down"
layers = 3
conv_shapes = [[8, 3], [4, 3]]
temporal_shape = [2, 4, 4]
conv_dtype = "bfloat16"
temporal_dtype = "float32"
"""

CHECKPOINT = """
[[sub_pool]]
name = "saved"
kind = "checkpoint"
of = "state"
grows = "float"
"""

PAGES = """
[[sub_pool]]
name = "other"
kind = "pages"
grows = "float"
page_bytes = "1.5 KiB"
pages_per_request = 2
"""

MODEL = """
[engine]
name = "e"
total_bytes = "80 GiB"
model = "Qwen3-Next-80B-A3B"
page_size = 16
index = { bits = 64, unit = "elements" }
"""


def read(text: str) -> Buffer:
    """The engine of a TOML text."""
    return engine_of(tomllib.loads(text))


def sizes(engine: Buffer) -> dict[str, int]:
    """Bytes of a page or slot of each sub-pool, in chain order."""
    return {pool.name: pool.page_bytes for pool in engine.sub_pools}


def test_every_kind_is_read_and_put_in_chain_order() -> None:
    engine = read(HEAD + STATE + CHECKPOINT + PAGES + FULL)
    # 2 x 16 x 2 x 128 x 2; 3 x (2 x 16 x 4 + 12 x 3 x 2); 3 x (32 + 2 x 4 x 4 + 72); 1.5 KiB; from up to down
    assert sizes(engine) == {"full": 16384, "saved": 408, "other": 1536, "state": 600}
    assert [pool.grows for pool in engine.sub_pools] == ["up", "float", "float", "down"]
    assert (engine.alignment, engine.max_requests, engine.step_tokens) == (16, 1, 4096)
    full = engine.sub_pools[0].index
    assert (full.bits, full.signed, full.unit, full.base) == (32, True, "elements", "buffer")


def test_a_latent_page_and_a_window() -> None:
    latent = FULL.replace('"kv"', '"mla"').replace("kv_heads = 2\nhead_dim = 64", "latent_dim = 512\nrope_dim = 64")
    engine = read(HEAD + latent + WINDOW + 'ids_of = "full"\n')
    assert sizes(engine) == {"full": 2 * 16 * 576 * 2, "window": 16384}
    assert engine.sub_pools[1].ids_of == "full"


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ('"4096 B"', 4096), ('"1.5GiB"', 1610612736), ('"2 MB"', 2000000), ('"80 GiB"', 85899345920)],
)
def test_sizes(text: str, size: int) -> None:
    assert read(HEAD.replace('"8 GiB"', text) + FULL).total_bytes == size


def test_a_sub_pool_overrides_what_the_engine_says() -> None:
    head = HEAD + "page_size = 32\n"
    assert read(head + FULL).sub_pools[0].page_size == 16
    assert read(head + FULL.replace("page_size = 16\n", "")).sub_pools[0].page_size == 32
    index = 'index = { bits = 16, signed = false, unit = "bytes", base = "view" }\n'
    assert read(head + FULL + index).sub_pools[0].index.bits == 16


def test_a_model_in_the_place_of_sub_pools() -> None:
    engine = read(MODEL)
    assert sizes(engine) == {"full": 393216, "state": 77266944}
    assert engine.max_context == 262144
    more = 'tp = 2\ncheckpoints = true\ntemporal_dtype = "bfloat16"\nslots_per_request = 3\nmax_context = 1000\n'
    engine = read(MODEL + more)
    # half of the heads, and of 39,518,208 and 20,938,752
    assert sizes(engine) == {"full": 196608, "checkpoint": 10469376, "state": 19759104}
    assert engine.sub_pools[2].per_request == 3
    assert engine.max_context == 1000


def test_a_model_with_sub_pools_of_ones_own() -> None:
    assert list(sizes(read(MODEL + PAGES))) == ["full", "other", "state"]


def test_stages_of_a_pipeline() -> None:
    # 48 layers in two stages of 24 each: 6 full and 18 linear ones
    assert sizes(read(MODEL + "pp = 2\npp_rank = 1\n")) == {"full": 196608, "state": 38633472}
    kimi = MODEL.replace("Qwen3-Next-80B-A3B", "Kimi-Linear-48B-A3B") + "pp = 2\npp_rank = 1\n"
    with pytest.raises(EngineConfigError, match="pp = 2: Kimi-Linear-48B-A3B has 27 layers; add pp_partition"):
        read(kimi)
    # the last 13 layers are 16 F, 17-19 L, 20 F, 21-23 L, 24 F, 25-26 L, 27 F
    engine = read(kimi + "pp_partition = [14, 13]\n")
    assert sizes(engine)["full"] == 4 * 16 * 576 * 2
    assert sizes(engine)["state"] == 9 * (2097152 + 73728)


def test_a_window_model_pairs_its_ids() -> None:
    engine = read(MODEL.replace("Qwen3-Next-80B-A3B", "gpt-oss-20b"))
    assert [(p.name, p.grows, p.ids_of, p.window) for p in engine.sub_pools] == [
        ("full", "up", "", 0),
        ("window", "down", "full", 128),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"has no engine; add an \[engine\] table"),
        (HEAD, r"the engine has no sub-pools; add \[\[sub_pool\]\]"),
        (HEAD.replace("total_bytes", "totl_bytes") + FULL, "has no total_bytes; totl_bytes is not known, did you mean"),
        (HEAD.replace('"8 GiB"', '"8 GiX"') + FULL, "total_bytes = '8 GiX': it must be a whole number of bytes"),
        (HEAD.replace('"8 GiB"', '"0.3 B"') + FULL, "total_bytes = '0.3 B'"),
        (HEAD.replace('"8 GiB"', "-1") + FULL, "total_bytes = -1"),
        (HEAD.replace('"8 GiB"', "true") + FULL, "total_bytes = True"),
        (HEAD.replace('"8 GiB"', "1e9") + FULL, "total_bytes = 1000000000.0"),
        (HEAD.replace("max_context = 4096", "") + FULL, "has no max_context; add the longest request in tokens"),
        (HEAD.replace("4096", "0") + FULL, "max_context = 0: it must be a whole number of at least 1"),
        (HEAD.replace('name = "e"', 'name = "a/b"') + FULL, "name = 'a/b': it must be text of letters"),
        (HEAD + "alignmnt = 16\n" + FULL, "alignmnt = 16 is not known; did you mean alignment"),
        (HEAD + "tp = 2\n" + FULL, "tp = 2 is not known"),
        (HEAD + FULL + "[extra]\n", "extra = {} is not known"),
        (HEAD.replace("32", "4") + FULL, r"\[engine\] index bits = 4: it must be a whole number of at least 8"),
        (HEAD.replace('"elements"', '"words"') + FULL, "unit = 'words': it must be one of elements, bytes"),
        (HEAD.replace("index =", "# index =") + FULL, "sub-pool 'full' has no index; say with which integer"),
        (HEAD + FULL.replace('"up"', '"sideways"'), "grows = 'sideways': it must be one of up, down, float"),
        (HEAD + FULL.replace('"kv"', '"blocks"'), "kind = 'blocks': it must be one of kv, mla, window, state"),
        (
            HEAD + FULL.replace("bfloat16", "bf16"),
            "sub-pool 'full' dtype = 'bf16': it must be one of float32, bfloat16",
        ),
        (HEAD + FULL.replace("page_size = 16", ""), "sub-pool 'full' has no page_size; add the tokens of a page, here"),
        (HEAD + FULL.replace('"full"', '"buffer"'), "name = 'buffer': claims about the whole buffer are named so"),
        (HEAD + FULL + FULL, "two sub-pools are named 'full'"),
        (HEAD + FULL + FULL.replace('"full"', '"b"'), "full and b both have grows = 'up'; one sub-pool may"),
        (HEAD + FULL + WINDOW, "sub-pool 'window' has no ids_of; name the sub-pool whose ids it binds"),
        (HEAD + FULL + WINDOW + 'ids_of = "none"\n', "ids_of = 'none': it must name a kv or mla sub-pool: full"),
        (
            HEAD + FULL + WINDOW.replace("page_size = 16", "page_size = 8") + 'ids_of = "full"\n',
            "'window' has page_size 8, 'full' has 16",
        ),
        (HEAD + STATE.replace("[2, 4, 4]", "[2, 4]"), "temporal_shape = .2, 4.: it must be a list of 3 positive whole"),
        (HEAD + STATE.replace("[[8, 3], [4, 3]]", "[8, 3]"), "conv_shapes = .8, 3.: it must be a list of shapes"),
        (HEAD + CHECKPOINT, "of = 'state': it must name a state sub-pool: none: list the state sub-pool first"),
        (HEAD + PAGES.replace("pages_per_request = 2", ""), "has no pages_per_request; add pages_per_request = N"),
        (MODEL + "pp = 2\n", "has no pp_rank; say which stage this is, from 0"),
        (MODEL + "pp = 2\npp_rank = 2\n", "pp_rank = 2: pp = 2, so it must be less than 2"),
        (MODEL + "pp = 2\npp_rank = 0\npp_partition = [24, 23]\n", r"add pp_partition = \[...\], the layers of each"),
        (MODEL.replace("page_size = 16", ""), r"\[engine\] has no page_size"),
        ("sub_pool = 3\n" + HEAD, "sub_pool must be an array of tables"),
        ("engine = 3\n", r"\[engine\] is 3; it must be a table"),
    ],
)
def test_a_mistake_is_told_with_key_value_and_remedy(text: str, said: str) -> None:
    with pytest.raises(EngineConfigError, match=said):
        read(text)


def test_what_a_model_cannot_do_is_told() -> None:
    with pytest.raises(ModelError, match="no model 'GPT-9' is shipped"):
        read(MODEL.replace("Qwen3-Next-80B-A3B", "GPT-9"))
    with pytest.raises(ModelError, match="tp = 3 neither splits nor repeats"):
        read(MODEL + "tp = 3\n")


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "engine.toml"
    contents: list[Any] = [b"[engine", b"\xff\xfe"]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(EngineConfigError, match=r"engine\.toml is not TOML"):
            read_engine(path)
