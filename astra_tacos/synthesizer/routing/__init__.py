"""Paths and trees that load the links of a network evenly."""
