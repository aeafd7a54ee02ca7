"""What stream processors do without slices, behind the interface of a Slicer: for measurements and for tests.

| class | keeps | a tuple costs | results |
| --- | --- | --- | --- |
| Buckets | a bucket a window | a combine for each window that holds it | as a Slicer's |
| TupleTree | FlatFAT over tuples | log2(n) combines; if late, all leaves behind it | as a Slicer's |
| HeldDABA | tuples until none can be late, then DABA a query | 3 combines a query | when they are final |
| HeldIntervals | the same, then one B-Int of all queries | 1 combine | when they are final |
"""

from mta.slicing.rivals.buckets import Buckets
from mta.slicing.rivals.buffered import HeldDABA, HeldIntervals
from mta.slicing.rivals.tuple_tree import TupleTree

__all__ = ["Buckets", "HeldDABA", "HeldIntervals", "TupleTree"]
