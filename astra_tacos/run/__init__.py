"""A whole run of ASTRA-sim: workload, system, network, communicator groups, custom collectives; and what a replay of it saw."""
