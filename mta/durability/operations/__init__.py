"""The operator's work on the windows in a store: list, inspect, verify, collect garbage, remove."""

from mta.durability.operations.collect import Collected, collect, collect_window
from mta.durability.operations.remove import remove, remove_all
from mta.durability.operations.roots import window_names
from mta.durability.operations.survey import Inspection, Summary, inspect, survey
from mta.durability.operations.verify import verify
from mta.durability.operations.version_check import Report
from mta.monoids.expressions import BadExpression, monoid_from_text

__all__ = [
    "BadExpression",
    "Collected",
    "Inspection",
    "Report",
    "Summary",
    "collect",
    "collect_window",
    "inspect",
    "monoid_from_text",
    "remove",
    "remove_all",
    "survey",
    "verify",
    "window_names",
]
