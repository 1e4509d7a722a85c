"""Notifications to operators: which of them become which message, and each once.

incoming        what arrives: events of ours, alarms of CloudWatch and Prometheus; severity; how a flood becomes a few
                messages, and which of them belong to one thread
alarm_catalog   what each alarm means, and what to do about it
delivery        claim, send, remember; what could not be sent is given back
"""
