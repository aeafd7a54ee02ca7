"""The paper's aggregate stores: lazy and eager in memory, and slices paged out to a store."""
