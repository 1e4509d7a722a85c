"""Whose an instance is: the clusters that these instances are tagged for."""

from collections.abc import Sequence

from nodefleet.adapters.aws.failures import calling
from nodefleet.adapters.aws.session import Session
from nodefleet.domain.names import TAG_CLUSTER


def clusters_of(session: Session, instances: Sequence[str]) -> frozenset[str]:
    """By filter, not by id: an id that EC2 does not know would make it refuse the whole call."""
    if not instances:
        return frozenset()
    with calling("EC2"):
        pages = session.client("ec2").get_paginator("describe_instances")
        found = pages.paginate(Filters=[{"Name": "instance-id", "Values": list(instances)}])
        tags = [
            tag
            for page in found
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
            for tag in instance.get("Tags", [])
        ]
    return frozenset(tag["Value"] for tag in tags if tag["Key"] == TAG_CLUSTER)
