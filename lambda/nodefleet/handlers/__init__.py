"""What Lambda calls. Each handler is a few lines over what a warm function keeps, `FUNCTION`.

reconcile      the schedule, Alertmanager's alerts and operators: one cluster's run
interruption   what EC2 says of its instances
notify         events and alarms to Slack
report         the week in figures
"""

import gc

from nodefleet.bootstrap import WarmFunction

# A first call allocates some hundred thousand objects that stay, and a large cluster ten times as many for each
# iteration: collecting them after every 700 took a twentieth of a cold start's CPU time, and more of a large cluster's.
gc.set_threshold(100_000, 20, 20)

FUNCTION = WarmFunction()
