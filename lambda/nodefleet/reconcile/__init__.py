"""One cluster's cycle: observe, decide, carry out, record; safe to kill at any line.

run            under one lease: look, and look again while that could change something or somebody woke us
observe        everything one iteration sees, with what is missing named
cycle          one iteration: what is under way first, then the decision, then the steps
carry_out      the steps, one by one
rechecks       what must still be so at the moment of a step
aftermath      what an iteration would show after a step that was just taken
book           what is to be written, and when
said           what operators are told: each thing once
telling        what they hear of a decision
tidy           what is over is let go of
governing      which policy is in force
usage          what an hour used and cost
record         the audit: decisions, figures, the log line
interrupted    nodes that EC2 takes are drained without waiting for the lease
"""
