"""What a user would take in place of a window of ours, by its size."""
