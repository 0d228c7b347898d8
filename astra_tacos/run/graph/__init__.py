"""The graph of a run: what meets, what belongs together, and what waits for what across ranks."""
