"""Routes that share the links of a network evenly, by prices that rise with what links have to carry."""
