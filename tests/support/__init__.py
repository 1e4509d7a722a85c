"""Builders, fakes and corpora that several tests use."""
