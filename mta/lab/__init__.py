"""Benchmarks, experiments, the demo and the soak. Nothing imports this package."""
