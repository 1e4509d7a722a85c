"""Slack: events as messages that a tired person understands."""
