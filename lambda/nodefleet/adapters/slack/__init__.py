"""Slack: events as messages that a tired operator understands.

text        what may stand in a message: escaped, within Slack's lengths, without mentions
blocks      Slack's own form of a message, within its limits
words       signs, headlines and figures
meanings    what our alarms mean, and what to do about them
sheets      a letter as a sheet: what happened, the figures, what to do
webhook     sends to Slack, and says what its answers mean
messenger   letters become messages
notifier    all of it, wired
"""
