"""Trees and paths over forwarding devices, chosen by linear programmes with column generation."""
