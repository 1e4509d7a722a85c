"""The one place where adapters meet the loop. Every part can be replaced by another, such as the simulation's."""
