"""What runs on the device: one kernel and its launcher a file, the torch form of the same beside it.

Nothing is imported here: `import poolproof` must not load torch or triton.
"""
