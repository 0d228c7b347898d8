"""Runs from the traces that PyTorch writes: execution traces of the host, and Kineto traces of the GPUs."""
