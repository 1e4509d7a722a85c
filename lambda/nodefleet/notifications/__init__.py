"""Telling operators: which news becomes which message, and each of it once.

limits     how much is too much, how long, how old: all figures in one place
news       what there is to tell: events of ours, and alarms of CloudWatch
weight     how urgent each kind is, and which kinds are never lost in a crowd
folding    a flood becomes a few letters
parts      what telling needs of the world
delivery   claim, send, remember; what could not be sent is given back
"""
