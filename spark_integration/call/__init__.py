"""A call of `rolling`: what can be wrong with it, and the plan that it comes to."""
