"""Repair of runs that ASTRA-sim does not finish: a draft, which `workload.mends` change, and the report of every change."""
