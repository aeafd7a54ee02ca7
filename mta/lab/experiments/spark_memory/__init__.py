"""`mta experiment spark-memory`: which jobs finish at which memory limits."""
