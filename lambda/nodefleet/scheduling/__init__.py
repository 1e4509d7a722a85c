"""Where a pod may run, worked out as the Kubernetes scheduler does.

selectors   whether labels match what a selector asks for
places      a node, and what is still free on it
fits        what keeps one pod off one node, in words
neighbours  who may run near whom: affinity, anti-affinity and spread
crowds      pods counted per topology domain, for `neighbours`
first_fit   the first of many nodes with enough room, without looking at each
emptiest    places in the order in which the scheduler likes them
crowding    whether pods that come together may take each other's places
classes     nodes that are alike, so that labels and taints are matched once for many
room        all nodes together: place a pod, let a node go, take it back
templates   what a new node of a pool would be like
standing    the nodes there are and those on their way, as one room
"""
