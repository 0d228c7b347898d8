"""Link-chunk matching over the time-expanded network."""
