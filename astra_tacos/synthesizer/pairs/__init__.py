"""Algorithms that send from NPU to NPU, on graphs where devices that forward are in between."""
