"""One fleet, a different difficulty on each node, and a max that lets only two of them stay.

objects     what operators deploy, as the API server takes it
homes       which difficulty is on which node
watching    what an onlooker sees of pods and instances meanwhile
story       how it is played, and what came of it
"""
