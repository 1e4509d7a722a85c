"""The week in figures, and what could be better. Pure."""
