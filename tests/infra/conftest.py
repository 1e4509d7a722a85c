"""Each file can run by itself: the AWS provider, which warns of its own old names, is imported quietly and first."""

from support import infra_mocks

__all__ = ["infra_mocks"]
