"""Windows in Spark jobs and streams, and what a user would take instead of them."""
