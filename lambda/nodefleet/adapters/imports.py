"""Large libraries are imported when they are first needed, by one thread at a time.

Python locks each module on its own. Two threads that enter a package with import cycles from two sides (`requests`,
and `requests.utils` by way of the Kubernetes client) can both be given a half-made module, and both calls fail.
"""

from threading import RLock

ONE_AT_A_TIME = RLock()
