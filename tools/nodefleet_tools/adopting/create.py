"""Creates in AWS what the plan lists. What exists is kept, so a second try goes on where one ended."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.model.names import ROLE_SERVER
from nodefleet_tools.adopting import plan
from nodefleet_tools.adopting.inspect import Found
from nodefleet_tools.adopting.plan import Chosen, Template

Report = Callable[[str], None]


def create_table(client: Any, chosen: Chosen, report: Report) -> None:
    name = chosen.table
    with calling("DynamoDB"):
        try:
            client.create_table(**plan.table(chosen))
            report(f"Table {name} is created.")
        except ClientError as error:
            if code_of(error) != "ResourceInUseException":
                raise
            report(f"Table {name} exists and is kept.")
        client.get_waiter("table_exists").wait(TableName=name)
        expiry = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        if expiry.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            client.update_time_to_live(TableName=name, TimeToLiveSpecification=plan.TIME_TO_LIVE)
        recovery = {"PointInTimeRecoveryEnabled": True}
        client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)


def find_template(client: Any, chosen: Chosen) -> Template:
    """The template of this name with its newest version, if there is one."""
    with calling("EC2"):
        try:
            found = client.describe_launch_templates(LaunchTemplateNames=[chosen.template_name])["LaunchTemplates"]
        except ClientError as error:
            if code_of(error) != "InvalidLaunchTemplateName.NotFoundException":
                raise
            return Template()
    return Template(id=found[0]["LaunchTemplateId"], version=str(found[0]["LatestVersionNumber"]))


def create_template(client: Any, found: Found, chosen: Chosen, report: Report) -> Template:
    """The template, or a new version of one that has this name and says something else."""
    wanted = plan.launch_template(found, chosen)
    with calling("EC2"):
        try:
            made = client.create_launch_template(**wanted)["LaunchTemplate"]
        except ClientError as error:
            if code_of(error) != "InvalidLaunchTemplateName.AlreadyExistsException":
                raise
            return _new_version(client, wanted, report)
    report(f"Launch template {wanted['LaunchTemplateName']} is created ({made['LaunchTemplateId']}).")
    return Template(id=made["LaunchTemplateId"], version=str(made["LatestVersionNumber"]))


def _new_version(client: Any, wanted: Mapping[str, Any], report: Report) -> Template:
    name, data = wanted["LaunchTemplateName"], wanted["LaunchTemplateData"]
    known = client.describe_launch_template_versions(LaunchTemplateName=name, Versions=["$Latest"])
    (latest,) = known["LaunchTemplateVersions"]
    if latest["LaunchTemplateData"] == data:
        report(f"Launch template {name} exists and is kept.")
        return Template(id=latest["LaunchTemplateId"], version=str(latest["VersionNumber"]))
    made = client.create_launch_template_version(LaunchTemplateName=name, LaunchTemplateData=data)
    version = made["LaunchTemplateVersion"]
    report(f"Launch template {name} has version {version['VersionNumber']} now.")
    return Template(id=version["LaunchTemplateId"], version=str(version["VersionNumber"]))


def tag_instances(client: Any, found: Found, chosen: Chosen, report: Report) -> None:
    servers = [each.id for each in found.servers]
    workers = [each.id for each in found.workers] if chosen.manage_existing else []
    with calling("EC2"):
        if servers:
            client.create_tags(Resources=servers, Tags=plan.tags(chosen, ROLE_SERVER))
            report(f"Tagged as servers: {', '.join(servers)}.")
        if workers:
            client.create_tags(Resources=workers, Tags=plan.tags(chosen))
            report(f"Tagged as workers of pool {chosen.pool}: {', '.join(workers)}.")
