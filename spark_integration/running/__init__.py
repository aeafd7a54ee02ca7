"""The surroundings of a task: storage, notes of files it may leave, counts, messages, and its end."""
