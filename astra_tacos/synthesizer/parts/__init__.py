"""What several synthesizers are made of, and small parts of one: list scheduling, mirrors, rings, arborescences, rounds."""
