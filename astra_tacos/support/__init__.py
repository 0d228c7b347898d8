"""Errors, units, files and their formats, expressions, kernels: what every room uses."""
