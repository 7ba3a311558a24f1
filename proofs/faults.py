"""Public faults of pool allocators, the theorems that they broke, and where each is planted and refuted, or why not.

The names of faults are those of public reports; where one report has several, a word in brackets tells them apart. The
groups are whole: each of their faults is planted as a twin or has its reason in a `NOT_EXPRESSED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poolproof.proofs.explore import claim_name
from poolproof.proofs.subject import SHIPPED, Subject, load
from poolproof.proofs.twins import buffer, checkpoint, schedule

WHOLE = {
    "2END": "two ends, one gap: joint capacity",
    "COMP": "compaction, and the gates that stop it",
    "XLAT": "translation, and tables that go stale",
    "ASYNC": "reuse and publication while something is in flight",
    "PAD": "padding and sentinel rows",
    "INIT": "stale bytes, zeroing, NaN",
    "SLOT": "the life and the owners of a slot",
    "DUAL": "paired pools: full and window, active and cached",
    "ADM": "admission, and allocation that is all or nothing",
    "ACCT": "accounting, locks, clearing",
}
"""The groups of which every fault is listed."""

GROUPS = {**WHOLE}

FAULTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "2END": {
        "sglang#34441": ("I10", "I11"),
        "sglang#39294": ("I10", "I11"),
        "sglang#33091": ("I11",),
        "sglang#36729": ("I10", "I11"),
        "sglang#35158": ("I11", "I21"),
        "sglang#36730 (review)": ("I10",),
        "sglang#32184": ("I21",),
        "tt-metal#44366": ("I14",),
        "sglang#37506 (tail pricing)": ("I4", "I9"),
    },
    "COMP": {
        "sglang#39982 (a)": ("I8",),
        "sglang#39982 (b)": ("I12",),
        "sglang#33362": ("I10",),
        "sglang#33362 (gate)": ("I8",),
        "sglang#36731": ("I8", "I9"),
        "sglang#39479": ("I8", "I9"),
        "sglang#37506 (repairs)": ("I4", "I7", "I8", "I12"),
        "llama.cpp#12253": ("I8",),
        "llama.cpp#14059": ("I8",),
        "llama.cpp#10873": ("I11",),
    },
    "XLAT": {
        "sglang#31471": ("I9",),
        "sglang#33517": ("I9",),
        "sglang#24395": ("I9",),
        "sglang#38521": ("I9",),
        "sglang#37496": ("I9",),
        "sglang#36730 (review 2)": (),
        "vLLM#56734": ("I9", "I22"),
        "TensorRT-LLM#15546": ("I5", "I24"),
        "vLLM#53142": ("I9", "I16"),
        "vLLM#53919": ("I19", "I24"),
        "sglang#33450": ("I19",),
    },
    "ASYNC": {
        "vLLM#45096": ("I5",),
        "vllm-ascend#16315": ("I11",),
        "sglang#24527": ("I5",),
        "sglang#38961": ("I5",),
        "vLLM#45704": ("I6",),
        "sglang#36743": ("I5", "I6"),
        "tokenspeed#279": ("I5",),
        "sglang#28468": ("I5", "I13"),
        "sglang#39765": ("I5", "I24"),
        "vllm-ascend#15674": ("I13",),
    },
    "PAD": {
        "TensorRT-LLM#13151": ("I22",),
        "vLLM#43810": ("I22",),
        "sglang#30974": ("I15", "I22"),
    },
    "INIT": {
        "vLLM#35219": ("I15",),
        "vLLM#56524": ("I15",),
        "sglang#33974 (1)": ("I15",),
        "aiter#4245": ("I15", "I22"),
        "tpu-inference#3412": ("I6", "I15"),
        "vLLM#44211": ("I15", "I18"),
    },
    "SLOT": {
        "sglang#26941": ("I3",),
        "sglang#23496": ("I1", "I21"),
        "sglang#16067": ("I4", "I21"),
        "sglang#20185": ("I21",),
        "sglang#29354": ("I3", "I4", "I6"),
        "sglang#30986": ("I4", "I6"),
        "sglang#38836": ("I2",),
        "Megatron-LM#6584": ("I3",),
        "LMCache#5005": ("I2",),
        "vLLM#42571": ("I1", "I2"),
        "sglang#38840": ("I1",),
        "sglang#31616": ("I1",),
        "sglang#13826": ("I1",),
        "TensorRT-LLM#15018": ("I1", "I4", "I6"),
        "TensorRT-LLM#16037": ("I3",),
        "sglang#23346": ("I3", "I7", "I19"),
        "LMCache#1034": ("I13",),
        "sglang#14209": ("I15", "I25"),
        "sglang#38355": ("I1", "I6"),
        "sglang#40305": (),
    },
    "DUAL": {
        "sglang#38519": ("I2",),
        "sglang#25805": ("I9",),
        "sglang#38619": ("I7",),
        "sglang#22493": ("I6", "I7", "I19"),
        "sglang#21125": ("I6", "I7"),
        "vLLM#57908": ("I7",),
        "sglang#27038": ("I13",),
        "vLLM#51837": ("I14",),
        "tokenspeed#243": ("I19",),
        "TensorRT-LLM#12306": ("I7",),
    },
    "ADM": {
        "sglang#29678 (review)": ("I10",),
        "sglang#34676": ("I4",),
        "sglang#33773": ("I10",),
        "sglang#36770": ("I4", "I11"),
        "sglang#19169": ("I10", "I21"),
        "kvcached#364": ("I4",),
        "sglang#33442": ("I20",),
        "tokenspeed#248": ("I20",),
    },
    "ACCT": {
        "sglang#35270": ("I21",),
        "mllm#656": ("I21",),
        "TensorRT-LLM#17926": ("I23",),
        "sglang#23216": ("I25",),
        "sglang#35869": ("I13",),
        "sglang#33862": ("I11",),
        "sglang#12432": ("I21",),
        "mini-sglang#149": (),
    },
}
"""For each group its faults, each with the theorems that it broke (none where it was a contract of classes)."""

NOT_EXPRESSED: Mapping[str, str] = {**buffer.NOT_EXPRESSED, **schedule.NOT_EXPRESSED, **checkpoint.NOT_EXPRESSED}
"""The faults that no shipped specification can express, each with the reason and the place where it will belong."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a fault as one twin has it, or a fault without a twin.

    Attributes:
        group: the group of the fault, a key of `GROUPS`.
        fault: the public report.
        broke: the theorems that the fault broke.
        subject: the specification in which it is planted, or "".
        twin: the faulty body, or "".
        action: the action whose body that is ("" for the initializer).
        story: what went wrong there, in one sentence.
        refutes: the claims that are refuted because of it.
        reason: why it is not expressed, or "".
    """

    group: str
    fault: str
    broke: tuple[str, ...]
    subject: str = ""
    twin: str = ""
    action: str = ""
    story: str = ""
    refutes: tuple[str, ...] = ()
    reason: str = ""


def table() -> list[Row]:
    """Every fault, group by group, once for each twin of it."""
    subjects = [load(ref) for ref in SHIPPED.values()]
    planted = [(subject.name, twin) for subject in subjects for twin in subject.twins]
    rows = []
    for group, faults in FAULTS.items():
        for fault, broke in faults.items():
            rows += [
                Row(group, fault, broke, name, twin.name, twin.action, twin.story, twin.refutes)
                for name, twin in planted
                if twin.fault == fault
            ]
            if fault in NOT_EXPRESSED:
                rows.append(Row(group, fault, broke, reason=NOT_EXPRESSED[fault]))
    return rows


def tags_of(subject: Subject, action: str) -> dict[str, tuple[str, ...]]:
    """The claims that a changed action ("" for the initializer) can break, each with its theorems."""
    spec = subject.spec
    item = spec.action(action) if action else spec.initializer
    batches = [fact for batch in spec.batches if batch.item.name == item.name for fact in batch.facts()]
    claims = [*spec.invariants, *spec.ensures(item), *spec.theorems, *batches, *(spec.steps if action else ())]
    return {"is_well_defined": (), **{claim_name(claim): tuple(claim.tags) for claim in claims}}
