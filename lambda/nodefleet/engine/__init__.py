"""The decision. The same observation, memory and policy always give the same decision."""
