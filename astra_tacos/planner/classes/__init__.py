"""Plans of runs with classes: their cases, their bounds, and the ordinary runs that they stand for."""
