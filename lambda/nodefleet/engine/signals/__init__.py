"""The three decision layers: reactive, predictive, and custom with its demand rules."""
