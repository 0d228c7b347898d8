"""Rounds: collectives in synchronous steps, each of some rounds, as integer programmes (SCCL)."""
