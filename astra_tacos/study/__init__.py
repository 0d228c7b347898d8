"""Questions over many networks: sweeps, the best split of bandwidth, constants of measured machines."""
