"""Launches, removals and cleanups as pure state machines: resuming after a crash is advancing once more."""
