"""The monoids: the aggregates that a window can compute, and two functions that make others."""

from __future__ import annotations

from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.collect import Collect, CollectDistinct, Concat, CountDistinct
from mta.monoids.distinct import DistinctCount
from mta.monoids.extrema import ArgMax, ArgMin, First, Last, MaxCount, MinCount
from mta.monoids.fields import Fields
from mta.monoids.functions import from_function, from_ufunc
from mta.monoids.hashed import BloomFilter, CountMin, Frequencies, Membership
from mta.monoids.kept import LastK, TopK
from mta.monoids.moments import GeometricMean, Mean, PopulationStdDev, SampleStdDev, Variance
from mta.monoids.pairs import Correlation, Covariance, Slope
from mta.monoids.runs import LongestIncreasingRun, LongestRun
from mta.monoids.sketches import HeavyHitters, Quantiles
from mta.monoids.ufuncs import Count, Max, Min, Product, Sum

__all__ = [
    "ArgMax",
    "ArgMin",
    "BloomFilter",
    "Collect",
    "CollectDistinct",
    "ColumnarMonoid",
    "Concat",
    "Correlation",
    "Count",
    "CountDistinct",
    "CountMin",
    "Covariance",
    "DistinctCount",
    "Fields",
    "First",
    "Frequencies",
    "GeometricMean",
    "HeavyHitters",
    "Last",
    "LastK",
    "LongestIncreasingRun",
    "LongestRun",
    "Max",
    "MaxCount",
    "Mean",
    "Membership",
    "Min",
    "MinCount",
    "Monoid",
    "PopulationStdDev",
    "Product",
    "Quantiles",
    "SampleStdDev",
    "Slope",
    "Sum",
    "TopK",
    "Variance",
    "from_function",
    "from_ufunc",
]
