"""Columns of whole numbers of more than 64 bits."""
