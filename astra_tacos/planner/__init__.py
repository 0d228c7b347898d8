"""Training workloads: generated, and with their collectives replaced by synthesized ones."""
