"""All-to-All of unequal parts in two levels: balanced within nodes, then by permutations between nodes."""
