"""The times of elements, and the cuts that they are compared with."""
