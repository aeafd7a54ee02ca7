"""Where full pages are: in the process, or in a store behind a buffer and a cache."""
