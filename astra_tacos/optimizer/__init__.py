"""Which bandwidth each dimension of a network should have, for a workload and a budget."""
