"""The reconcile loop of one cluster: observe, decide, execute, record; safe to kill at any line."""
