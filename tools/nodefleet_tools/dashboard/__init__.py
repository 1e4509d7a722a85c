"""The dashboard: a local page over the live cluster or over a simulated one.

source     the interface that the server needs, and its implementation over the loop's own ports
demo       … over a simulated world, paced by a wall clock
live       … over the table, EC2, Kubernetes and Prometheus, with the operator's own credentials
snapshot   the cluster now: pools, nodes, pending pods, operations, alarms
timeline   figures over time, from recorded decisions and from snapshots, and the forecast
decisions  recorded decisions: a list, one of them whole, and a replay with another policy
money      cost against fixed fleets, by cause
steering   operator commands: each becomes a record in the table
session    one-time token, session cookie, CSRF token, Host check
server     HTTP on loopback: static files, JSON, server-sent events
static/    the page: plain ES modules and one style sheet, served as they are
"""
