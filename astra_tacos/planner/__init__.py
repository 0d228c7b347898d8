"""Planner of training runs: replaces the collectives of a workload by synthesized ones."""
