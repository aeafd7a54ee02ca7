"""Experiments with Spark that take longer than a benchmark and have a figure as their result."""
