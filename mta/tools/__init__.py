"""The command line and what it runs: benchmarks, soak, demo."""
