"""Where the classes of `poolproof.compat.sglang` differ from SGLang 0.5.23: all of it, as data."""

from __future__ import annotations

from typing import Final, NamedTuple


class Difference(NamedTuple):
    """One difference that callers can see.

    Attributes:
        name: what it is about.
        there: what SGLang does.
        here: what is done here.
        why: the reason.
    """

    name: str
    there: str
    here: str
    why: str


SLOTS: Final = (
    Difference(
        "order of ids",
        "The id that was freed longest ago comes first.",
        "The id that was freed last comes first.",
        "`SlotPool` keeps a stack: what is used stays dense, and a call takes the same time in a pool of any size.",
    ),
    Difference(
        "double free",
        "Taken: the id is in the list of free ids twice, and two holders get it.",
        "InvalidFree, nothing is changed.",
        "Two states in one slot are wrong answers that nobody notices.",
    ),
    Difference(
        "listed twice",
        "An id twice in one `free` is taken, as a double free.",
        "InvalidFree, nothing is changed.",
        "As above.",
    ),
    Difference(
        "stray ids",
        "0, negative ids and ids beyond the pool are taken, and handed out later.",
        "InvalidFree, nothing is changed.",
        "Slot 0 takes the writes of padding rows; the others are no slots.",
    ),
    Difference(
        "ids that are no integers",
        "Floats turn the whole list of free ids into floats, truth values count as 0 and 1.",
        "TypeError, nothing is changed.",
        "A mask is no list of ids.",
    ),
    Difference(
        "counts",
        "`alloc(-k)` hands out all free slots but k; `alloc(True)` is `alloc(1)`; `alloc(1.5)` is None at a shortage.",
        "ValueError for negative counts, TypeError for what is no integer.",
        "A count that went below zero is a bug of the caller's.",
    ),
    Difference(
        "host ids and scalars",
        "`free` refuses lists, numbers and tensors without an axis; `store` refuses the last two with several layers.",
        "They are taken.",
        "Ids that are on the host need no tensor and no synchronisation.",
    ),
    Difference(
        "group begun twice",
        "What the first group had left is lost for good.",
        "The first group ends, what it had left is free.",
        "A scheduling round that is left early must not leak.",
    ),
    Difference(
        "clear in a group",
        "The group goes on: the next `alloc(1)` hands out a slot that is in the list of free ids too.",
        "The group ends with `clear`.",
        "One slot, one holder.",
    ),
    Difference(
        "free_slots is a copy",
        "`free_slots` is the list itself: writing to it, or to ids that came from it, changes what is handed out.",
        "`free_slots` is a fresh tensor and cannot be set.",
        "The books are on the host, and what is handed out is a value.",
    ),
    Difference(
        "second thread",
        "Any thread may call at any time.",
        "The thread of the first call drives an allocator. Others get WrongThread, unless they ask for sizes, "
        "`free_slots` or `check`.",
        "Two threads at once corrupt either allocator.",
    ),
    Difference(
        "empty allocator",
        "`size=0` is an allocator with nothing to hand out, `num_heads=0` a pool of states without bytes.",
        "ValueError.",
        "A pool without slots is a mistake in a setting.",
    ),
    Difference(
        "types of errors",
        "What is refused comes as torch's or Python's own error: RuntimeError, IndexError, AttributeError.",
        "Typed errors with the numbers and the remedy, or ValueError and TypeError. CheckpointMemoryError is a "
        "RuntimeError too.",
        "An error should say what to do.",
    ),
)

BYTES: Final = (
    Difference(
        "scale rounded up",
        "scale = the storage number nearest to amax / 127; codes beyond 127 are cut.",
        "scale = the least storage number that is not below amax / 127.",
        "No code is cut, and |q| <= 127 is a theorem. Either side is half a step off at most, and the rounding of what "
        "is loaded; but where a scale is a subnormal float16, theirs is further off, by what was cut.",
    ),
    Difference(
        "ties",
        "q = round(x / scale).",
        "q = round(x * (1 / scale)), the reciprocal rounded once.",
        "It is one instruction. Codes differ by 1 where x lies half-way between two, to 127 * 2**-24 of a step.",
    ),
    Difference(
        "largest numbers",
        "The largest bfloat16, float16 and float32 numbers come back as infinities.",
        "They come back as the largest number.",
        "What is finite stays finite.",
    ),
    Difference(
        "small channels",
        "A maximum below 1e-8 counts as 1e-8; in float16 scales below 2**-25 are 0, and the channel is lost.",
        "The least scale is 2**-126, in float16 2**-24.",
        "A state may be small in all of a channel.",
    ),
    Difference(
        "channels that are not finite",
        "The scale is a NaN or an infinity; the channel comes back as NaNs of either sign.",
        "The scale is a NaN, codes are 0; the channel comes back as the one NaN that all devices write.",
        "The bytes are the same on every device.",
    ),
    Difference(
        "dtypes",
        "States and windows of any floating-point dtype.",
        "bfloat16, float16 and float32; others are a TypeError (states) or LayoutError (windows).",
        "Those are the dtypes whose bytes are proved or tested to be the same on every device.",
    ),
    Difference(
        "dtype of the scales",
        "Scales of another dtype than the states are taken: codes are chosen with one scale and loaded with another.",
        "LayoutError: pass `scale_dtype` (`temporal_dtype` of a pool).",
        "The error would be larger than half a step.",
    ),
    Difference(
        "one state for several slots",
        "One state and several slots: all get it, as torch's indexing has it; so do all heads or layers of a pool, of "
        "a checkpoint with one.",
        "ValueError: as many states as slots. KernelArgumentError: a pool of other heads or layers.",
        "Lists of different lengths are a bug of the caller's, and a pool of other shapes is another model's.",
    ),
    Difference(
        "target twice",
        "A slot that is written twice in a call has one of the two states.",
        "ValueError; InvalidIds for checkpoint slots of a pool.",
        "Which of the two is not defined on a device.",
    ),
    Difference(
        "negative slots",
        "-1 is the last slot, as in Python.",
        "ValueError or InvalidIds; on a device that copy is left out.",
        "-1 is padding.",
    ),
    Difference(
        "masks and tables of slots",
        "A mask of truth values or a table of two axes is taken for slots; `free` takes a table where no slot is free.",
        "TypeError and ValueError.",
        "On a device a mask has to be read back to know how many slots there are.",
    ),
    Difference(
        "slots that are not handed out",
        "A store into, or a load from, slot 0 or a free checkpoint slot is done.",
        "InvalidIds, nothing is changed; on a device where the ids are known on the host.",
        "A free slot is the next holder's.",
    ),
    Difference(
        "loads before the first store",
        "Whatever was in the memory is loaded.",
        "LifecycleError; in a bare store scales are NaN until the first store, and so is what is loaded.",
        "Another request's state is not an answer.",
    ),
    Difference(
        "more conv tensors",
        "Conv tensors that the active pool has on top are left out.",
        "KernelArgumentError.",
        "A checkpoint without them is not complete.",
    ),
    Difference(
        "windows of another dtype",
        "A load casts them; a store raises RuntimeError, and the temporal states are stored by then.",
        "They are cast both ways.",
        "What is refused should change nothing, and there is no need to refuse it.",
    ),
    Difference(
        "shapes of windows",
        "Conv shapes of any number of axes.",
        "One or two; others are a LayoutError.",
        "The kernel that copies four tensors in a launch has channels and width.",
    ),
    Difference(
        "log records",
        "The factory logs the size (INFO) and that the KV budget does not count it (WARNING).",
        "One record (INFO).",
        "It is no fault of the caller's that could be mended.",
    ),
)

ON_A_DEVICE: Final = (
    Difference(
        "ids come from the host",
        "`alloc` takes a part of a tensor on the device.",
        "`alloc` copies ids to the device, behind what the stream has to do; nothing waits.",
        "The books are on the host.",
    ),
    Difference(
        "a foreign tensor is read back",
        "`free` appends it to the list on the device, whatever it holds.",
        "`free` of a tensor on the device that is neither what `alloc` returned nor a view of it waits for the device.",
        "What is given back is checked. Clones and rows of other tensors are foreign, as is what was written to since.",
    ),
    Difference(
        "slots that the pool does not have",
        "A number outside a pool ends the process with an assertion on the device; -1 is the last slot.",
        "The copy is left out, where its number is not known on the host.",
        "Lists may be padded with -1, and numbers on the device are not read back.",
    ),
    Difference(
        "memory is checked",
        "By the factory, on a CUDA device.",
        "By every `MambaCheckpointPool`, on the CPU too.",
        "An error that says what to lower, before anything is allocated.",
    ),
    Difference(
        "devices",
        "Whatever torch runs on.",
        "cuda, cpu and meta; on meta there are ids and no bytes.",
        "Those are what the kernels run on.",
    ),
)
"""What a comparison on CPU tensors cannot show."""

DIFFERENCES: Final = SLOTS + BYTES
"""All of them: `tests/compat/test_sglang_side_by_side.py` fails on one that is missing here, or that is not so."""
