"""Why it holds: obligations generated from the specs, proved with Z3 for all sizes, with controls that must fail."""
