"""Values and columns as bytes, and back from bytes that nobody vouches for."""
