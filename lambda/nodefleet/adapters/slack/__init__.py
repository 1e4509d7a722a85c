"""Slack: events as messages that an operator understands at 3 a.m."""
