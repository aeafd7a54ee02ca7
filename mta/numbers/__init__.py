"""Whole numbers that one word of 64 bits does not hold, in columns."""
