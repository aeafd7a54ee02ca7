"""Other algorithms behind the interface of a Slicer, without slices: for measurements and for tests.

| class | keeps | cost of a tuple | results |
| --- | --- | --- | --- |
| Buckets | an aggregate for each window | a combine for each of its windows | as a Slicer's |
| TupleTree | FlatFAT over tuples | log2(n) combines; late: all leaves behind it | as a Slicer's |
| HeldDABA | tuples until none can be late, then DABA a query | 3 combines a query | when they are final |
| HeldIntervals | the same, then one B-Int for all queries | 1 combine | when they are final |
"""

from mta.slicing.rivals.buckets import Buckets
from mta.slicing.rivals.buffered import HeldDABA, HeldIntervals
from mta.slicing.rivals.tuple_tree import TupleTree

__all__ = ["Buckets", "HeldDABA", "HeldIntervals", "TupleTree"]
