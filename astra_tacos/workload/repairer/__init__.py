"""Repair of runs that ASTRA-sim does not finish: steps, each of which mends one kind of fault and reports every change."""
