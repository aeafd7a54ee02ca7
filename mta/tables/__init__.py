"""Windows over the rows of a data frame."""
