"""Packing of trees into the links of a network."""
