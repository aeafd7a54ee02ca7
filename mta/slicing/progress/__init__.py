"""What each query has given out of a stream, and what is due of it next: a module a kind of windows."""
