"""Benchmarks of the engine: ratios between contenders that are measured side by side in one run."""
