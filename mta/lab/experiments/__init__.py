"""Experiments: they take longer than a benchmark, and have figures as their result."""
