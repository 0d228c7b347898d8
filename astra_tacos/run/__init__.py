"""A whole run of ASTRA-sim: workload, system, network, communicator groups, custom collectives; and the outcome of its replay."""
