"""From a request to a verified solution: what `synthesize` does, on the command line and in Python."""
