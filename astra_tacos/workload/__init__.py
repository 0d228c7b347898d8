"""Whole workloads: their collectives are found, replaced by synthesized ones, and written as a run of ASTRA-sim."""
