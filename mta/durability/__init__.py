"""What outlives the process: manifests, writers, snapshots, and the care of what is in a store."""
