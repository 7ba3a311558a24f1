"""What is allowed: executable specs of the pools, in `poolproof.spec.language`. Standard library only."""
