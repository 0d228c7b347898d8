"""Rules: the faults of a run that ASTRA-sim stumbles over. `lint` reports them, and the replay refuses by them."""
