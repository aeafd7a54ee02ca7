"""Times of elements: what they are compared with."""
