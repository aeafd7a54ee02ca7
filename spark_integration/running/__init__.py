"""What a task has around it: storage, notes of what it may leave, counts, messages, and its end."""
