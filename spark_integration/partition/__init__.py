"""A task: a sorted partition, streamed through windows."""
