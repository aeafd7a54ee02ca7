"""Every monoid of the catalogue obeys the laws."""

import math
import operator

import numpy as np
from hypothesis import strategies as st

from mta import monoids as m
from mta.monoids.laws import exactly, monoid_laws, tolerant

small = st.integers(-1000, 1000)
words = st.text(max_size=5)
reals = st.floats(-1e6, 1e6)
numbers = st.one_of(small, reals)
any_int = st.integers(-(2**63), 2**63 - 1)
positive = st.one_of(st.integers(0, 1000), st.floats(1e-6, 1e6), st.just(0.0))
anything = st.one_of(numbers, words, st.tuples(small, words), st.binary(max_size=3))
pairs = st.tuples(small, words)
records = st.fixed_dictionaries({"temp": numbers, "load": small, "user": words, "more": st.none()})

sums = tolerant(absolute=1e-6)


def same_sketch(a, b):
    if hasattr(a, "get_quantiles"):
        shares = [0.0, 0.1, 0.5, 0.9, 1.0]
        return a.n == b.n and a.get_quantiles(shares, True) == b.get_quantiles(shares, True)
    if hasattr(a, "total_weight"):
        return a.total_weight == b.total_weight and a.num_active_items == b.num_active_items
    return tolerant(relative=1e-3)(a, b)


test_count = monoid_laws(m.Count(), anything, close=exactly)
test_sum = monoid_laws(m.Sum(), numbers, close=sums)
test_sum_of_any_int = monoid_laws(m.Sum(), any_int, close=exactly)
test_product = monoid_laws(m.Product(), st.one_of(st.floats(0.5, 2), st.floats(-2, -0.5), st.integers(1, 3)))
test_product_of_any_int = monoid_laws(
    m.Product(), st.one_of(any_int, st.sampled_from([-1, 0, 1])), close=exactly
)
test_product_of_small_int = monoid_laws(m.Product(), st.integers(-2, 2), close=exactly)
test_min = monoid_laws(m.Min(), numbers, close=exactly)
test_max = monoid_laws(m.Max(), st.floats(allow_nan=False), close=exactly)
test_max_of_any_int = monoid_laws(m.Max(), any_int, close=exactly)
test_mean = monoid_laws(m.Mean(), numbers, close=sums)
test_mean_of_any_int = monoid_laws(m.Mean(), any_int)
test_geometric_mean = monoid_laws(m.GeometricMean(), positive, close=sums)
test_sample_std = monoid_laws(m.SampleStdDev(), numbers, close=tolerant(1e-7, 1e-3))
test_population_std = monoid_laws(m.PopulationStdDev(), numbers, close=tolerant(1e-7, 1e-3))
test_std_far_from_zero = monoid_laws(
    m.SampleStdDev(), st.sampled_from([1e9 - 1, 1e9, 1e9 + 1]), close=tolerant(1e-6, 1e-6)
)
test_variance = monoid_laws(m.Variance(), numbers, close=tolerant(1e-7, 1e-3))
test_population_variance = monoid_laws(m.Variance("temp", ddof=0), records, close=tolerant(1e-7, 1e-3))
number_pairs = st.tuples(numbers, numbers)
test_covariance = monoid_laws(m.Covariance(), number_pairs, close=tolerant(1e-6, 1e-2))
test_population_covariance = monoid_laws(
    m.Covariance("temp", "load", ddof=0), records, close=tolerant(1e-6, 1e-2)
)
test_correlation = monoid_laws(m.Correlation(), st.tuples(small, small), close=tolerant(1e-6, 1e-6))
test_slope = monoid_laws(m.Slope(), st.tuples(small, numbers), close=tolerant(1e-6, 1e-2))
test_min_count = monoid_laws(m.MinCount(), st.integers(0, 3), close=exactly)
test_max_count = monoid_laws(m.MaxCount(), numbers, close=exactly)
test_max_count_of_few = monoid_laws(m.MaxCount(), st.integers(0, 3), close=exactly)
test_arg_min = monoid_laws(m.ArgMin(), st.tuples(st.integers(0, 5), words), close=exactly)
test_arg_max = monoid_laws(m.ArgMax(), st.tuples(st.integers(0, 5), small), close=exactly)
test_arg_max_of_pairs = monoid_laws(m.ArgMax(), st.tuples(reals, st.tuples(small, words)), close=exactly)
test_arg_max_named = monoid_laws(m.ArgMax("load", "user"), records, close=exactly)
test_first = monoid_laws(m.First(), anything, close=exactly)
test_last = monoid_laws(m.Last(), anything, close=exactly)
test_last_number = monoid_laws(m.Last(), reals, close=exactly)
test_first_named = monoid_laws(m.First("user"), records, close=exactly)
test_last_k = monoid_laws(m.LastK(3), anything, close=exactly)
test_last_k_named = monoid_laws(m.LastK(5, "user"), records, close=exactly)
test_top_k = monoid_laws(m.TopK(3), numbers, close=exactly)
test_top_k_of_any_int = monoid_laws(m.TopK(6), st.one_of(any_int, st.just(-(2**63))), close=exactly)
test_concat = monoid_laws(m.Concat(), words)
test_collect = monoid_laws(m.Collect(), anything)
test_collect_distinct = monoid_laws(m.CollectDistinct(), anything)
test_count_distinct = monoid_laws(m.CountDistinct(), anything)
test_longest_run = monoid_laws(m.LongestIncreasingRun(), st.integers(0, 9), close=exactly)
test_longest_run_timed = monoid_laws(
    m.LongestIncreasingRun(), st.tuples(st.floats(0, 1e6), st.integers(0, 9)), close=exactly
)
test_longest_run_named = monoid_laws(m.LongestIncreasingRun("temp", time="load"), records, close=exactly)
test_bloom = monoid_laws(m.BloomFilter(bits=512, hashes=3), anything)
test_count_min = monoid_laws(m.CountMin(width=16, depth=3), anything, close=exactly)
test_distinct_count = monoid_laws(m.DistinctCount(), anything, close=exactly)
test_distinct_count_of_few_registers = monoid_laws(m.DistinctCount(lg_k=4), anything, close=exactly)
test_quantiles = monoid_laws(m.Quantiles(), numbers, close=same_sketch)
test_heavy_hitters = monoid_laws(m.HeavyHitters(), st.integers(0, 5), close=same_sketch)
test_heavy_words = monoid_laws(m.HeavyHitters("user"), records, close=same_sketch)

test_from_maximum = monoid_laws(m.from_ufunc(np.maximum, None), numbers, close=exactly)
test_from_gcd = monoid_laws(m.from_ufunc(np.gcd, 0), st.integers(0, 10**6), close=exactly)
test_from_lcm = monoid_laws(m.from_ufunc(np.lcm, 1), st.integers(1, 10**6), close=exactly)
test_from_or = monoid_laws(m.from_ufunc(np.bitwise_or, 0), any_int, close=exactly)
test_from_logaddexp = monoid_laws(m.from_ufunc(np.logaddexp, -math.inf), st.floats(-50, 50))
test_from_logical = monoid_laws(m.from_ufunc(np.logical_or, 0), st.integers(0, 1), close=exactly)
test_from_lifted = monoid_laws(
    m.from_ufunc(np.add, 0.0, lift=lambda x: x * 0.5, lower=np.sqrt), st.integers(0, 1000)
)


left = np.frompyfunc(lambda older, _: older, 2, 1)
test_from_python_ufunc = monoid_laws(m.from_ufunc(left, None), numbers, close=exactly)

test_from_function = monoid_laws(m.from_function(operator.add, "", lift=str), small)

test_fields = monoid_laws(
    m.Fields(
        peak=m.Max("temp"), mean=m.Mean("load"), n=m.Count(), who=m.ArgMax("load", "user"), low=m.Min("temp")
    ),
    records,
    close=sums,
)
test_fields_plain = monoid_laws(m.Fields(a=m.Sum(), b=m.MaxCount(), n=m.Count(), f=m.First()), small)
test_fields_of_pairs = monoid_laws(m.Fields(n=m.Count(), a=m.ArgMax(), b=m.ArgMin()), pairs)
test_fields_count = monoid_laws(m.Fields(n=m.Count()), anything)
test_fields_of_objects = monoid_laws(
    m.Fields(
        names=m.Concat("user"),
        peak=m.Max("temp"),
        run=m.LongestIncreasingRun("load", time="temp"),
        n=m.Count(),
    ),
    records,
)
test_fields_of_plain_objects = monoid_laws(m.Fields(all=m.Collect(), last=m.Last(), n=m.Count()), words)
test_fields_with_overflow = monoid_laws(m.Fields(s=m.Sum(), p=m.Product()), any_int, close=exactly)
