"""docs/adopt.md as commands, and the K3s cluster on EC2 that nothing of ours has touched, to follow it on."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodefleet_tools.doctor.readings import LABELLED
from support import k8s_objects
from support.deployed import Deployed
from support.prometheus_stand_in import vector

PAGE = Path(__file__).parents[2] / "docs/adopt.md"
PROMETHEUS_OF_PAGE = "http://10.0.1.10:9090"
FOLLOWED = ["init", "init", "doctor", "run", "explain", "policy"]  # the commands of the page, in their order
JOINS = "#!/bin/bash\ncurl -sfL https://get.k3s.io | K3S_URL=https://10.0.1.10:6443 K3S_TOKEN=x sh -\n"
_TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


def lines_of_page(prometheus: str) -> list[list[str]]:
    """The words of every line of its shell blocks but pipx, which is what tests/test_wheel.py does."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    typed = (shlex.split(line.replace(PROMETHEUS_OF_PAGE, prometheus)) for line in lines)
    return [words for words in typed if words[0] != "pipx"]


def variables(words: list[str], kubeconfig: Path) -> Mapping[str, str]:
    """What an `export` sets, with the kubeconfig that there is."""
    pairs = (word.partition("=") for word in words[1:])
    return {name: str(kubeconfig) if name == "KUBECONFIG" else value for name, _, value in pairs}


def take_dry_run_out(policy: Path) -> None:
    """What the page asks for before `policy apply`."""
    policy.write_text(policy.read_text().replace("dry_run: true\n", ""))


def machines_of_k3s(deployed: Deployed) -> list[dict[str, Any]]:
    """A worker in each subnet and a server; their Node objects, named after their hosts, as K3s registers them."""
    site, ec2, roles = deployed.site, deployed.client("ec2"), deployed.client("iam")
    if "k3s-agent" not in {each["RoleName"] for each in roles.list_roles()["Roles"]}:
        roles.create_role(RoleName="k3s-agent", AssumeRolePolicyDocument=_TRUST)
        roles.create_instance_profile(InstanceProfileName="k3s-agent")
        roles.add_role_to_instance_profile(InstanceProfileName="k3s-agent", RoleName="k3s-agent")
        roles.create_role(RoleName="AWSServiceRoleForEC2Spot", AssumeRolePolicyDocument=_TRUST)
    nodes = []
    for index, subnet in enumerate((*site.subnets.values(), next(iter(site.subnets.values())))):
        (machine,) = ec2.run_instances(
            ImageId="ami-12345678",
            InstanceType="t3.small",
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet,
            UserData=JOINS,
            IamInstanceProfile={"Name": "k3s-agent"},
        )["Instances"]
        host = machine["PrivateDnsName"].partition(".")[0]
        made = k8s_objects.node(host, instance="", control_plane=index == len(site.subnets), pool=None)
        made["spec"]["providerID"] = f"k3s://{host}"
        nodes.append(made)
    return nodes


def label_readings(deployed: Deployed) -> None:
    """Prometheus knows the nodes by the labels that the queries need."""
    prometheus = deployed.site.prometheus
    usual = prometheus.answer
    prometheus.answer = lambda query: (
        vector(({"role": "worker", "pool": "default", "node": "ip"}, "2")) if query == LABELLED else usual(query)
    )
