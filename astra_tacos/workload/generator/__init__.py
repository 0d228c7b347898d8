"""Generator of one training step of a transformer on many ranks, as the Chakra traces that ASTRA-sim reads."""
