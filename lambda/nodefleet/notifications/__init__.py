"""Notifications: which event becomes which message, and each of them once."""
