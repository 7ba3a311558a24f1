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
    replay, prefix_cache, touched       request traces through the shipped slot pool in virtual time
    unified_campaign, unified_driver    random use of the unified pool, every byte known; what a campaign comes to
    unified_canaries, buffer_layouts    unified pools that are broken on purpose; small buffers of every kind
    queued_device, schedule_guards      a device that works at random times; which guard of the spec said no
    unified_replay, unified_result      request traces through a model's unified pool in virtual time
    model_shape, sequence               a model's sub-pools, and a request's pages among them
    block_cache, counted_pool           the prefix cache of that replay, and its own counts
    round_campaign, round_play          campaigns in rounds, of the two that follow; how a round is played
    cache_campaign, cache_driver        random use of the state cache, with cache_oracle, cache_canaries, cache_misuse
    checkpoint_campaign, ..._driver     random use of the checkpoint pool, with an oracle and canaries of its own
    cache_world, cache_layouts          what both stand on: small pools, cache_streams and cache_memory below them
    cache_replay, cache_replay_result   request traces through the state cache in virtual time

Campaigns of allocators need neither torch nor z3: what does (`cuda_device`, `torch_memory`, kernels) is imported when
it is asked for, and only `strategies` needs Hypothesis.
"""
