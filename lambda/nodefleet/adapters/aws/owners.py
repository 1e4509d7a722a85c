"""Whose an instance is: the clusters that these instances are tagged for."""

from collections.abc import Mapping, Sequence

from nodefleet.adapters.aws.failures import calling
from nodefleet.adapters.aws.session import Session
from nodefleet.domain.names import TAG_CLUSTER

_VALUES = 200  # that a filter may have


def clusters_of(session: Session, instances: Sequence[str]) -> Mapping[str, str]:
    """The cluster of each instance that has one.

    By filter, not by id: an id that EC2 does not know would make it refuse the whole call."""
    owners: dict[str, str] = {}
    with calling("EC2"):
        for start in range(0, len(instances), _VALUES):
            some = list(instances[start : start + _VALUES])
            pages = session.client("ec2").get_paginator("describe_instances")
            for page in pages.paginate(Filters=[{"Name": "instance-id", "Values": some}]):
                found = (instance for reservation in page["Reservations"] for instance in reservation["Instances"])
                owners.update(
                    (instance["InstanceId"], tag["Value"])
                    for instance in found
                    for tag in instance.get("Tags", [])
                    if tag["Key"] == TAG_CLUSTER
                )
    return owners
