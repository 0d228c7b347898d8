"""Optimizer of network bandwidths: the best bandwidth of each dimension for a workload and a budget."""
