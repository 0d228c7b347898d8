"""Sweeps for co-design: a file names axes; their combinations are points, and each point becomes a row of a table."""
