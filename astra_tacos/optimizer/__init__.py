"""Optimizer of network bandwidths: how much each dimension should have, for a workload and a budget."""
