"""The engine beside data frames, and beside the algorithms that live in memory."""
