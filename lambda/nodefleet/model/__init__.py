"""What the autoscaler talks about: frozen data without clock, environment, randomness or I/O."""
