"""The algorithms of the paper: no I/O, no threads, no store."""
