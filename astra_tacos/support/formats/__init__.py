"""Files and values of other origin: read strictly, with errors of one line."""
