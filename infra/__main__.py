"""What `pulumi up` runs: the configuration is checked, everything is declared, and what operators need to know is
told."""

import pulumi
import pulumi_aws as aws

from nodefleet.model.serialization import ValidationError, ValidationIssue
from nodefleet_infra import artefacts
from nodefleet_infra.artefacts import Artefacts
from nodefleet_infra.config import Stack
from nodefleet_infra.interfaces import Place
from nodefleet_infra.program import declare
from nodefleet_infra.raw_config import WEBHOOK, read_raw_config
from nodefleet_infra.stack import stack_from


def checked(region: str) -> tuple[Stack, Artefacts]:
    """Everything that is wrong is said at once, before anything is declared."""
    project, problems = pulumi.get_project(), list[ValidationIssue]()
    stack = built = None
    try:
        stack = stack_from(project, pulumi.get_stack(), region, read_raw_config(project))
    except ValidationError as refused:
        problems += refused.problems
    try:
        built = artefacts.found()
    except ValidationError as refused:
        problems += refused.problems
    if stack is None or built is None:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise pulumi.RunError(f"This stack cannot be deployed:\n{lines}")
    return stack, built


stack, built = checked(pulumi.Config("aws").get("region") or "")
place = Place(
    partition=aws.get_partition().partition,
    region=stack.region,
    account=aws.get_caller_identity().account_id,
)
outputs = declare(stack, place, built, webhook=pulumi.Config().get_secret(WEBHOOK))
for name, value in outputs.items():
    pulumi.export(name, value)
