"""Rewriting of runs: communication is fused, split, decomposed and reordered, and the embedded replay judges the result."""
