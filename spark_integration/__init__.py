"""Sliding windows in Spark jobs: `rolling`, over windows that are larger than an executor."""

from spark_integration.metrics import Metrics
from spark_integration.rolling import rolling

__all__ = ["Metrics", "rolling"]
