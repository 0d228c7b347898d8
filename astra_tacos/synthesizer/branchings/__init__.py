"""Edge-disjoint arborescences from one root: an exact packing of broadcasts."""
