"""Surfaces that engines already call, over these pools: an engine switches by changing an import.

Each module is named after the engine whose names and conventions it has, and needs torch. Nothing is imported here.
"""
