"""What communication takes from an NPU's cores and memory: the endpoint."""
