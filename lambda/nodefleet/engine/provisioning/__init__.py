"""Growing: how many nodes, of which type, in which zone and market."""
