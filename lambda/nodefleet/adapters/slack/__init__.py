"""Slack: notifications as messages that an operator understands at 3 a.m.

message     text, figures and blocks of a message, within Slack's limits, without mentions
web_api     sends by a bot token into the thread of an incident, and reads the reactions that answer a question
webhook     sends by an incoming webhook; the messenger, and the notifier with everything wired
"""
