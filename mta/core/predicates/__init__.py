"""Where windows start under predicates that take columns."""
