"""Paths and trees that share the links of a network evenly."""
