"""What an operator does to the windows in a store: list, inspect, verify, clear away, remove."""

from mta.operations.collect import Collected, collect, collect_window
from mta.operations.expressions import BadExpression, monoid_from_text
from mta.operations.remove import remove, remove_all
from mta.operations.roots import window_names
from mta.operations.survey import Inspection, Summary, inspect, survey
from mta.operations.verify import Report, verify

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
