"""The names of the theorems, as the fault catalogue numbers them, and what each says in one line."""

STATEMENTS = {
    "I1": "Every slot is in exactly one place: free, reserved by the open group, owned by a request or the cache, "
    "pending, or the sink.",
    "I2": "No double free; sink, negative, foreign and unowned ids are refused; so is an id twice in a batch.",
    "I3": "A free or a transfer ends every former handle; a dead handle never lives again.",
    "I4": "All or nothing: a refused operation changes nothing, and capacity n means that n single steps succeed.",
    "I21": "Counts equal the sizes of the sets they count, are never negative, and add up to the size of the pool.",
    "I25": "Clear restores the initial state, whatever was open or owned.",
}
