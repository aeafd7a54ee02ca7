"""What an aggregate is in SQL: nulls, NaN, types of inputs and results."""
