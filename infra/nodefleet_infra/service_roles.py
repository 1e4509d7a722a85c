"""Roles of AWS itself that an account has once: for Spot, and for fleets.

CreateFleet needs both, and the autoscaler may not make roles. An account that used either before has it already, so
each is made or found, and never deleted: others may rely on it. Not in another account than the stack's.
"""

from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource, ResourceProvider

from nodefleet_infra.credentials import Access, access_from

SERVICES = ("spot.amazonaws.com", "ec2fleet.amazonaws.com")


def made_or_found(iam: Any, service: str) -> str:
    """`made` or `found`."""
    try:
        iam.create_service_linked_role(AWSServiceName=service)
    except iam.exceptions.InvalidInputException as error:
        if "has been taken" not in str(error):
            raise
        return "found"
    except iam.exceptions.EntityAlreadyExistsException:  # how the rest of IAM says it
        return "found"
    return "made"


class ServiceRoleProvider(ResourceProvider):
    serialize_as_secret_always = False  # there is none in it
    access = Access()

    def configure(self, req: ConfigureRequest) -> None:
        self.access = access_from(req)

    def create(self, props: dict[str, Any]) -> CreateResult:
        session = self.access.checked(props["region"], props["account"])
        how = made_or_found(self.access.client(session, "iam"), props["service"])
        return CreateResult(id_=str(props["service"]), outs={**_own(props), "how": how})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=False, replaces=["service"] if olds.get("service") != news.get("service") else [])


class ServiceRole(Resource, module="accounts", name="ServiceRole"):
    def __init__(
        self, name: str, *, service: str, region: str, account: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        props = {"service": service, "region": region, "account": account}
        super().__init__(ServiceRoleProvider(), name, props, opts)


def _own(props: dict[str, Any]) -> dict[str, Any]:
    return {name: props.get(name) for name in ("service", "region", "account")}
