"""The `mta` command, and the operator's commands: ls, inspect, verify, gc, rm."""
