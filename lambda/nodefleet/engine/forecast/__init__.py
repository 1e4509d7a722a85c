"""How much load a pool will have when a node launched now would serve, and how sure that is.

history       one value per minute, as a week and a bit of small integers
features      what a minute tells of the minutes to come
regression    linear regression that forgets
forecaster    three forecasts for three windows, each a vote among forecasters that are graded by their errors
probability   past errors become the chance that so many nodes do not suffice
sizing        the number of nodes that this chance is worth
stored        the forecaster as text for the state table, and back

Pure and deterministic. Everything can be learned again from the load of the last days, so it is safe to lose.
"""
