"""Notifications to operators: which of them become which message, and each once.

incoming        what arrives: events of ours, alarms of CloudWatch and Prometheus; the limits of delivery
alarm_catalog   what each alarm means, and what to do about it
grouping        a flood becomes a few messages; severity; incidents: which messages belong to one thread
delivery        claim, send, remember; what could not be sent is given back
"""
