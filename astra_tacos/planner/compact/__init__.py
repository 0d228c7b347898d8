"""Plans of compact runs: their search, their bounds, and the ordinary runs that they stand for."""
