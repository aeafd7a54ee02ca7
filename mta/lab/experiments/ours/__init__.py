"""Experiments that are of no paper: what a window in a store does that others do not."""
