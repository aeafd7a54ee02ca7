"""`mta demo`: a Spark job whose windows are larger than the memory that its Python workers may have."""
