"""One step of training a transformer on many ranks, written as the Chakra traces that ASTRA-sim takes."""
