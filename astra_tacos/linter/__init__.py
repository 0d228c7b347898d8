"""What would make ASTRA-sim stall, abort or compute something else, said before any run."""
