"""Scenarios: days of a cluster as YAML files to read, play and write.

model         what a file says
happenings    what may happen beside the load
expectations  what should come of it
reading       from a file to a scenario, or everything that is wrong with it
problems      … what is wrong though every field is of the right kind
staging       a world as the scenario describes it
acting        what happens in it, at its time
checking      whether what was expected came of it
"""
