"""AWS's service models, read once for all tests.

Every botocore session reads them again, megabytes of JSON, and nearly every test on moto has a session of its own.
"""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    import botocore.session  # noqa: PLC0415  # most test runs need none of this
    from botocore.loaders import create_loader  # noqa: PLC0415

    known: dict[str | None, dict[Any, Any]] = {}  # by search path

    def with_what_is_known(search_path: str | None = None) -> Any:
        loader = create_loader(search_path)
        loader._cache = known.setdefault(search_path, loader._cache)
        return loader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", with_what_is_known)
        yield
