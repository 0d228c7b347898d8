"""All-Reduces in which NPUs exchange values and add them up themselves: stages over levels of the network, and plans of them."""
