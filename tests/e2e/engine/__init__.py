"""Pulumi's real engine, with a stand-in for its AWS provider that drives moto: the deployment as a user runs it."""
