"""Does yours hold? Drives allocators against the spec: other people's, and the one that ships.

    operations, picks                   what can be done to a pool, in a form that stays meaningful when a trace is cut
    events                              when steps in flight complete
    targets, loading, binding, handles  what an allocator must offer, how it is found, and how it is called
    lockstep, comparison, claims        one allocator and the spec, step by step, the whole state compared
    divergence, coverage                what is reported: the first difference; what was exercised
    generate, strategies                where operations come from: a fast generator, and Hypothesis
    driver, runs, traces, shrink        a trace is run, saved, read back, cut down
    campaign, canaries, plain_pool      many runs from one seed, and the broken allocators that each campaign must find
    mooncake, synthetic                 request traces of serving systems, read and made up
    replay, prefix_cache, touched       request traces through the shipped pool in virtual time

Nothing here imports torch or z3, and only `strategies` needs Hypothesis.
"""
