"""Matching of links with chunks over the time-expanded network."""
