"""Kubernetes through the official client; lists are read raw and only the needed fields are decoded."""
