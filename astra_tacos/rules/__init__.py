"""Rules: the faults of a run that ASTRA-sim stumbles over, each once, for `lint`, repairs and the replay."""
