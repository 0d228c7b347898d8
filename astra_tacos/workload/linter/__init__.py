"""Checks of a run's files before it runs: what would make ASTRA-sim stall, abort or compute something else."""
