"""What is allowed: executable specs of the pools, in the language of `poolproof.spec.language`. Standard library only."""
