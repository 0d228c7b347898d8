"""Tags of messages."""

TAGS = 500_000_000
"""Tags count modulo this (ASTRA-sim `system/Sys.cc`, `front_end_sim_send`)."""
