"""Co-design sweeps: a file that names axes becomes points, and each point a row of a table."""
