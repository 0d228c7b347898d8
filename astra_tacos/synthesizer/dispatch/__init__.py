"""List scheduling: from a graph of sends to a schedule."""
