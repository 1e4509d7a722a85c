"""What the program declares can be deployed on Pulumi's engine in the tests: the stand-in for AWS knows each kind."""

import pytest

from e2e.engine.aws_resources import is_known
from support.infra_mocks import (
    DEV,
    PRODUCTION,
    deployed_stack,
    stack_in_an_existing_network,
    stack_with_all_options,
    unusual_stack,
)


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(lambda: deployed_stack(DEV), id="dev"),
        pytest.param(lambda: deployed_stack(PRODUCTION), id="production"),
        pytest.param(unusual_stack, id="unusual"),
        pytest.param(stack_in_an_existing_network, id="existing network"),
        pytest.param(stack_with_all_options, id="all options"),
    ],
)
def test_every_kind_of_resource_is_known_to_the_stand_in(graph):
    kinds = {each.type.removeprefix("aws:") for each in graph().made if each.type.startswith("aws:")}
    unknown = sorted(kind for kind in kinds if not is_known(kind))
    assert not unknown, f"say in tests/e2e/engine/aws_resources.py what becomes of {unknown}"
