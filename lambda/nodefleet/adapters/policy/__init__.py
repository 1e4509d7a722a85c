"""From a policy file's parsed content to a checked policy.

form       the shape of a file: preset, what holds for the cluster and for all pools, the pools
sound      what can be used of it, and what cannot
layers     defaults, preset, file and pool laid over each other, with a note of where each value came from
load       the two together, and the checks: a policy, or every problem at once
schedule   cron and time zones: which windows are open now
reader     the same for the loop, each text read once
schema     the same shape as JSON Schema, for editors
"""

from nodefleet.adapters.policy.load import Loaded, load
from nodefleet.adapters.policy.schedule import active_windows, utc_offset

__all__ = ["Loaded", "active_windows", "load", "utc_offset"]
