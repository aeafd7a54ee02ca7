"""`rolling` on a stream: windows that outlive micro-batches, tasks and drivers."""

from __future__ import annotations

from spark_integration.streaming.query import of_outer_joins, rolling_stream

__all__ = ["of_outer_joins", "rolling_stream"]
