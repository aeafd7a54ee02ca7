"""A call of `rolling`: its checks, and the plan made of it."""
