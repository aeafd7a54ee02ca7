"""The keys of a bucket, taken in by one call: their windows as columns, in the state or in the store."""
