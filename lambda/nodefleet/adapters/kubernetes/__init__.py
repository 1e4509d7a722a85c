"""Kubernetes through the official client; lists are read raw and only the needed fields are decoded.

connection    how the API server is reached, and that it is safe
calls         one request and its answer: time limits, repeats
refusals      what the server says no to, in our words
resources     the kinds of objects, and requests about them
permissions   what our role must allow
decoding      from bytes to shapes, page by page
shapes, pod_shapes
              the server's objects, cut down to what is needed
view          one iteration: what is read always, and what only if a pod needs it
nodes, pods, owners, volumes, budgets
              each as the domain knows it
templates     what pods have in common, worked out once
rules, selecting
              where a pod may run
cordons       nodes that leave, are uncordoned, and are forgotten
evictions     pods that leave
notes         events on nodes
checks        for `nodefleet doctor`
cluster       the Cluster port, over all of these
"""

from nodefleet.adapters.kubernetes.client import CallLimits
from nodefleet.adapters.kubernetes.cluster import KubernetesCluster
from nodefleet.adapters.kubernetes.resources import NEEDED, NEEDED_PATHS, Permission

__all__ = ["NEEDED", "NEEDED_PATHS", "CallLimits", "KubernetesCluster", "Permission"]
