"""The one command, `poolproof`. Each sub-command is a thin module here; the work is done in the other rooms."""
