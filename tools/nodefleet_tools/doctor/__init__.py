"""What `nodefleet doctor` looks at.

findings      what a check says, and what its failure means
examine       all checks at once, each bounded in time, told in their order
context       the parts that are looked at, and what several checks need to know of them
checks        which checks there are, in the order in which an operator would fix things

A check gives findings and prints nothing, and nothing that it does lasts: what EC2 can be asked without doing it is
asked so, and what cannot be checked is said.
"""
