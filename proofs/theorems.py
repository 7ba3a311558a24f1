"""The names of the theorems, as the fault catalogue numbers them, and what each says in one line."""

STATEMENTS = {
    "I1": "Every slot or page is in exactly one place: free, reserved, owned, a hole, pending, or the sink.",
    "I2": "No double free; sink, negative, foreign and unowned ids are refused; so is an id twice in a batch.",
    "I3": "A free or a transfer ends every former handle; a dead handle never lives again.",
    "I4": "All or nothing: a refused operation changes nothing, and capacity n means that n single steps succeed.",
    "I5": "No new writer while a reader or writer may be in flight; a step reads what it was promised at its call.",
    "I6": "Only what its owner has written is read or published; when it is published it has reached the device.",
    "I7": "A checkpoint is complete, of one moment, and never changes; a hit is a private copy, quantised once.",
    "I8": "Moves keep what owners wrote, byte for byte; no mover passes a lease or a closed gate.",
    "I9": "Tables are inverse; a mapping lives as long as its binding; one owner per id space; the tables cover it.",
    "I10": "Credit is realisable: what a neighbour is told that it can have can be given up. (Admission is not here.)",
    "I11": "Progress: compaction ends without holes, fences drain, and no call is refused without a cause.",
    "I12": "A remembered capacity is what working it out now would give, gates included.",
    "I13": "A release gives up exactly what was acquired, and only by whoever acquired it.",
    "I14": "Bytes of distinct owners never overlap, frontiers never cross, and all agree which bytes an id means.",
    "I15": "Where zeroing is promised, a fresh page never shows an earlier tenant's bytes.",
    "I18": "The codec: finite comes back finite, codes fit and are near, in order and odd; zeros stay zero. "
    "bfloat16 and float16: every case, storing and loading; float32: over the reals.",
    "I19": "A state's position is how many tokens it has seen; a checkpoint's is the length of its node's key.",
    "I20": "What can be bound, freed and credited depends on calls alone, never on how far the device is.",
    "I21": "Counts equal the sizes of the sets they count, are never negative, and add up.",
    "I22": "Padding, dead rows and negative ids reach the sink, and nothing else.",
    "I23": "Taking a slot may evict, but never what the running operation holds by a lock.",
    "I24": "A step keeps its snapshot; its results are put down to whom it saw, never to a later tenant.",
    "I25": "Clear restores the initial state, whatever was open or owned; it touches no byte.",
}
