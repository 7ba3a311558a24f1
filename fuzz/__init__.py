"""Does yours hold? Drives allocators against the spec: other people's, and the one that ships.

    operations, picks       what can be done to a pool, in a form that stays meaningful when a trace is cut down
    events                  when steps in flight complete
    targets, binding        what an allocator must offer, and how it is called
    lockstep, comparison    one allocator and the spec, step by step, the whole state compared
    driver, generate        traces of operations, and where they come from
    shrink, traces          a failure cut down, saved and read back
    campaign, canaries      many runs from one seed, and the broken allocators that each campaign must find
    mooncake, replay        request traces of serving systems through a pool in virtual time

Nothing here imports torch, z3 or (except `strategies`) Hypothesis.
"""
