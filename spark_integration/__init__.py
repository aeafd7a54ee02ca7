"""Sliding windows in Spark jobs: `rolling`, over windows that are larger than an executor."""

try:
    from spark_integration.aggregates.traits import SqlTraits
    from spark_integration.metrics import Metrics
    from spark_integration.rolling import rolling
except ModuleNotFoundError as error:
    _missing = (error.name or "").partition(".")[0]
    if _missing not in ("pyspark", "pyarrow", "pandas"):
        raise
    raise ModuleNotFoundError(
        f"spark_integration needs the package {_missing}: pip install 'mta-windows[spark]'", name=error.name
    ) from error

__all__ = ["Metrics", "SqlTraits", "rolling"]
