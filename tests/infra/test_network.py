"""The network: nobody gets in from outside, and the functions get out without a NAT gateway."""

from functools import cache
from ipaddress import IPv4Network, IPv6Network

import botocore.session
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodefleet_infra import addresses, endpoints
from nodefleet_infra.endpoints import Way
from nodefleet_infra.names import Names
from nodefleet_infra.security_groups import API_SERVER, PROMETHEUS
from support.infra_mocks import (
    DEV,
    PRODUCTION,
    ROOT,
    Graph,
    declared,
    deployed_stack,
    stack_in_an_existing_network,
    unusual_stack,
)
from support.wording import assert_wording

BOTH = [DEV, PRODUCTION]
INGRESS, EGRESS = "SecurityGroupIngressRule", "SecurityGroupEgressRule"


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(prefix=st.integers(16, 22), block=st.integers(0, 255), zones=st.integers(2, 6))
def test_no_two_subnets_share_an_address_and_all_are_in_the_network(prefix, block, zones):
    network = IPv4Network((int(IPv4Network("10.0.0.0/8").network_address) + block * 2 ** (32 - prefix), prefix))
    makers = (addresses.worker_block, addresses.nat_block, addresses.function_block)
    made = [IPv4Network(maker(str(network), zone)) for maker in makers for zone in range(zones)]
    assert all(each.subnet_of(network) and each.prefixlen <= 28 for each in made)
    assert not any(one.overlaps(two) for index, one in enumerate(made) for two in made[index + 1 :])


def test_ipv6_blocks_are_different_64s_of_what_aws_gave():
    given_block = "2406:da18:abc:de00::/56"
    blocks = [IPv6Network(addresses.ipv6_block(given_block, number)) for number in range(256)]
    assert len(set(blocks)) == 256
    assert all(each.prefixlen == 64 and each.subnet_of(IPv6Network(given_block)) for each in blocks)


@pytest.mark.parametrize("file", BOTH)
def test_subnets_are_dual_stack_and_in_every_zone(file):
    subnets = deployed_stack(file).of("ec2/subnet:Subnet")
    blocks = [each.inputs["cidrBlock"] for each in subnets] + [each.inputs["ipv6CidrBlock"] for each in subnets]
    assert len(set(blocks)) == 2 * len(subnets)
    assert all(each.inputs["assignIpv6AddressOnCreation"] for each in subnets)
    for kind in ("workers", "functions"):
        zones = {each.inputs["availabilityZone"] for each in subnets if each.name.startswith(kind)}
        assert len(zones) == (2 if file == DEV else 3)


# ── who gets in ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_nobody_is_let_in_by_address(file):
    graph = deployed_stack(file)
    for rule in graph.of(INGRESS):
        assert rule.inputs.get("referencedSecurityGroupId"), rule.name
        assert not rule.inputs.keys() & {"cidrIpv4", "cidrIpv6", "prefixListId"}, rule.name
    for group in (*graph.of("ec2/securityGroup:SecurityGroup"), *graph.of("DefaultSecurityGroup")):
        assert not group.inputs.keys() & {"ingress", "egress"}, group.name
    assert not [each for each in graph.made if each.type.endswith("SecurityGroupRule")]


@pytest.mark.parametrize("file", BOTH)
def test_api_server_and_prometheus_are_reached_by_functions_and_nodes_only(file):
    graph = deployed_stack(file)
    groups = {each.id: each.name for each in graph.of("ec2/securityGroup:SecurityGroup")}
    for port in (API_SERVER, PROMETHEUS):
        sources = {
            groups[rule.inputs["referencedSecurityGroupId"]]
            for rule in graph.of(INGRESS)
            if rule.inputs["fromPort"] <= port <= rule.inputs["toPort"]
        }
        assert sources == {"functions", "shop-workers"}


@pytest.mark.parametrize("file", BOTH)
def test_nothing_listens_for_ssh_and_every_rule_says_why(file):
    rules = deployed_stack(file).of(INGRESS)
    assert not [rule for rule in rules if rule.inputs["fromPort"] <= 22 <= rule.inputs["toPort"]]
    assert all(rule.inputs["fromPort"] == rule.inputs["toPort"] for rule in rules)
    assert all(rule.inputs["description"] for rule in rules)


def test_a_cluster_does_not_let_in_another_ones_nodes():
    graph = unusual_stack()
    groups = {each.id: each.name for each in graph.of("ec2/securityGroup:SecurityGroup")}
    for rule in graph.of(INGRESS):
        target = groups[rule.inputs["securityGroupId"]].rpartition("-")[0]
        source = groups[rule.inputs["referencedSecurityGroupId"]].rpartition("-")[0]
        assert source in ("", target)  # the functions, or its own
    assert len({each.outputs["arn"] for each in graph.of("iam/role:Role") if "workers" in each.name}) == 2


# ── how the functions get out ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_the_functions_have_no_way_to_the_ipv4_internet(file):
    graph = deployed_stack(file)
    table = graph.one("ec2/routeTable:RouteTable", "functions")
    routes = [each.inputs for each in graph.of("ec2/route:Route") if each.inputs["routeTableId"] == table.id]
    assert [sorted(route) for route in routes] == [["destinationIpv6CidrBlock", "egressOnlyGatewayId", "routeTableId"]]
    used = {each.inputs["subnetId"]: each.inputs["routeTableId"] for each in graph.of("RouteTableAssociation")}
    functions = graph.one("lambda/function:Function", "reconcile").inputs["vpcConfig"]
    assert {used[subnet] for subnet in functions["subnetIds"]} == {table.id}
    assert functions["ipv6AllowedForDualStack"] is True


def test_the_autoscaler_needs_no_nat_gateway():
    assert not deployed_stack(DEV).of("NatGateway")


@pytest.mark.parametrize("file", BOTH)
def test_dynamodb_and_s3_are_reached_by_free_gateway_endpoints(file):
    graph = deployed_stack(file)
    table = graph.one("ec2/routeTable:RouteTable", "functions").id
    free = [each for each in graph.of("VpcEndpoint") if each.inputs["vpcEndpointType"] == "Gateway"]
    mine = {
        each.inputs["serviceName"].rpartition(".")[2]: each for each in free if table in each.inputs["routeTableIds"]
    }
    assert set(mine) == {"dynamodb", "s3"}
    group = next(each.id for each in graph.of("ec2/securityGroup:SecurityGroup") if each.name == "functions")
    out = [each.inputs for each in graph.of(EGRESS) if each.inputs["securityGroupId"] == group]
    assert {each.outputs["prefixListId"] for each in mine.values()} == {
        rule["prefixListId"] for rule in out if "prefixListId" in rule
    }
    assert {rule["toPort"] for rule in out} == {443, API_SERVER, PROMETHEUS}
    assert not [rule for rule in out if "cidrIpv4" in rule]


def test_the_environment_says_which_addresses_are_dual_stack():
    graph = deployed_stack(DEV)
    said = {each.name: each.inputs["environment"]["variables"] for each in graph.of("lambda/function:Function")}
    assert said["reconcile"]["NODEFLEET_DUALSTACK"] == "ec2,secretsmanager"
    assert said["notify"]["NODEFLEET_DUALSTACK"] == "none"


def test_the_table_of_dual_stack_regions_is_what_botocore_knows():
    """If this fails after an update, AWS has added regions: take them over and change the date."""
    services = (
        botocore.session.Session().get_component("data_loader").load_data("endpoints")["partitions"][0]["services"]
    )
    for service, regions in endpoints.DUALSTACK_REGIONS.items():
        known = {
            region
            for region, about in services[service]["endpoints"].items()
            if any(set(variant["tags"]) == {"dualstack"} for variant in about.get("variants", []))
        }
        assert regions == known, service


def test_where_a_dual_stack_address_is_missing_an_interface_endpoint_is_made_and_its_price_told():
    graph = unusual_stack()
    (dear,) = [each for each in graph.of("VpcEndpoint") if each.inputs["vpcEndpointType"] == "Interface"]
    assert dear.inputs["serviceName"] == "com.amazonaws.eu-central-2.ec2"
    assert dear.inputs["privateDnsEnabled"] is True
    assert len(dear.inputs["subnetIds"]) == 2
    assert_wording([line for line in graph.said if "dual-stack" in line])
    function = graph.one("lambda/function:Function", "reconcile").inputs
    assert function["environment"]["variables"]["NODEFLEET_DUALSTACK"] == "secretsmanager"
    groups = {each.id: each.name for each in graph.of("ec2/securityGroup:SecurityGroup")}
    (rule,) = [each.inputs for each in graph.of(INGRESS) if groups[each.inputs["securityGroupId"]] == "endpoints"]
    assert (groups[rule["referencedSecurityGroupId"]], rule["toPort"]) == ("functions", 443)


def test_readings_from_sqs_and_cloudwatch_get_their_way_too():
    ways = {each.service: each.way for each in endpoints.routes(["sqs", "cloudwatch", "s3"], "ap-southeast-1")}
    assert ways == {"sqs": Way.DUALSTACK, "cloudwatch": Way.INTERFACE, "s3": Way.GATEWAY}
    production = deployed_stack(PRODUCTION)
    assert "com.amazonaws.ap-southeast-1.monitoring" in {
        each.inputs["serviceName"] for each in production.of("VpcEndpoint")
    }


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_by_default_workers_have_addresses_of_their_own():
    subnets = {each.name: each.inputs["mapPublicIpOnLaunch"] for each in deployed_stack(DEV).of("ec2/subnet:Subnet")}
    assert {name for name, public in subnets.items() if public} == {
        "workers-ap-southeast-1a",
        "workers-ap-southeast-1b",
    }


def test_private_workers_go_out_by_the_nat_gateway_of_their_zone():
    graph = deployed_stack(PRODUCTION)
    zones = ["ap-southeast-1a", "ap-southeast-1b", "ap-southeast-1c"]
    subnets = {each.id: each for each in graph.of("ec2/subnet:Subnet")}
    for zone in zones:
        subnet = graph.one("ec2/subnet:Subnet", f"workers-{zone}")
        assert subnet.inputs["mapPublicIpOnLaunch"] is False
        (table,) = [
            each.inputs["routeTableId"]
            for each in graph.of("RouteTableAssociation")
            if each.inputs["subnetId"] == subnet.id
        ]
        (gateway,) = [
            each.inputs["natGatewayId"]
            for each in graph.of("ec2/route:Route")
            if each.inputs["routeTableId"] == table and "natGatewayId" in each.inputs
        ]
        (nat,) = [each for each in graph.of("NatGateway") if each.id == gateway]
        assert subnets[nat.inputs["subnetId"]].inputs["availabilityZone"] == zone
    layers = graph.one("VpcEndpoint", "workers-s3")
    assert len(layers.inputs["routeTableIds"]) == 3


@pytest.mark.parametrize("file", [DEV, PRODUCTION])
def test_public_addresses_and_nat_come_after_the_internet_gateway_and_go_before_it(file):
    """AWS refuses an address to a network without one, and to take away one whose addresses are in use."""
    graph = deployed_stack(file)
    (gateway,) = graph.of("ec2/internetGateway:InternetGateway")
    public = [*graph.of("ec2/eip:Eip"), *graph.of("NatGateway")]
    assert public
    assert [each.name for each in public if gateway.urn not in graph.before(each.urn)] == []


def test_one_nat_gateway_serves_all_zones_if_that_is_wanted():
    graph = unusual_stack()
    assert len(graph.of("NatGateway")) == 1
    tables = {each.name: each.inputs["routeTableId"] for each in graph.of("RouteTableAssociation")}
    assert tables["workers-eu-central-2a"] == tables["workers-eu-central-2b"]


# ── an existing network ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_existing_network_is_used_and_nothing_is_added_but_groups():
    graph = stack_in_an_existing_network()
    kinds = {each.type for each in graph.made if each.type.startswith(("aws:ec2/", "aws:vpc/"))}
    made = {kind.rpartition(":")[2] for kind in kinds} - {"LaunchTemplate", "Instance", "NetworkInterface", "Eip"}
    assert made <= {"SecurityGroup", INGRESS, EGRESS, "Volume", "VolumeAttachment", "NetworkInterfaceAttachment"}
    assert {each.inputs["vpcId"] for each in graph.of("ec2/securityGroup:SecurityGroup")} == {"vpc-0a"}
    function = graph.one("lambda/function:Function", "reconcile").inputs
    assert function["vpcConfig"]["subnetIds"] == ["subnet-0c", "subnet-0d"]
    assert function["vpcConfig"]["ipv6AllowedForDualStack"] is False
    assert function["environment"]["variables"]["NODEFLEET_DUALSTACK"] == "none"
    group = graph.one("ec2/securityGroup:SecurityGroup", "functions").id
    out = [each.inputs for each in graph.of(EGRESS) if each.inputs["securityGroupId"] == group]
    assert {(rule["cidrIpv4"], rule["toPort"]) for rule in out if "cidrIpv4" in rule} == {("0.0.0.0/0", 443)}


# ── a way in, if it is wanted ────────────────────────────────────────────────────────────────────────────────────


@cache
def with_ingress(*, private: bool = False, internal: bool = False, zone: str = "", production: bool = False) -> Graph:
    written = yaml.safe_load((ROOT / DEV).read_text())["config"]
    if private:
        written["node-fleet:network"]["workers"] = "private"
    written["node-fleet:production"] = production
    (cluster,) = written["node-fleet:clusters"]
    cluster["ingress"] = {"internal": internal, "cidrs": ["203.0.113.0/24", "2001:db8::/32"]}
    cluster["master"] = {"zone": zone}
    return declared(written, "dev")


@pytest.mark.parametrize("file", BOTH)
def test_nobody_gets_a_load_balancer_unasked(file):
    graph = deployed_stack(file)
    assert not graph.of("LoadBalancer")
    assert graph.exports["ingress"] == {}


def test_a_load_balancer_leads_to_the_servers_address_on_traefiks_ports():
    graph = with_ingress()
    (balancer,) = graph.of("lb/loadBalancer:LoadBalancer")
    assert balancer.inputs["loadBalancerType"] == "network"
    assert not balancer.inputs["internal"]
    address = graph.one("NetworkInterface", "shop-master").outputs["privateIp"]
    targets = {each.outputs["arn"]: each.inputs for each in graph.of("TargetGroup")}
    attached = {each.inputs["targetGroupArn"]: each.inputs for each in graph.of("TargetGroupAttachment")}
    forwarded = {each.inputs["port"]: each.inputs for each in graph.of("lb/listener:Listener")}
    assert set(forwarded) == {80, 443}
    for port, listener in forwarded.items():
        assert listener["loadBalancerArn"] == balancer.outputs["arn"]
        (action,) = listener["defaultActions"]
        group = targets[action["targetGroupArn"]]
        assert (group["targetType"], group["protocol"], group["port"]) == ("ip", "TCP", port)
        assert (attached[action["targetGroupArn"]]["targetId"], attached[action["targetGroupArn"]]["port"]) == (
            address,
            port,
        )
    assert all(len(each.inputs["name"]) <= 32 for each in (balancer, *graph.of("TargetGroup")))


def test_only_whom_the_configuration_names_comes_in_and_only_to_those_ports():
    graph = with_ingress()
    own = graph.one("ec2/securityGroup:SecurityGroup", "shop-ingress").id
    master = graph.one("ec2/securityGroup:SecurityGroup", "shop-master").id
    by_address = [each.inputs for each in graph.of(INGRESS) if each.inputs.keys() & {"cidrIpv4", "cidrIpv6"}]
    assert {each["securityGroupId"] for each in by_address} == {own}
    found = sorted((each.get("cidrIpv4") or each["cidrIpv6"], each["fromPort"], each["toPort"]) for each in by_address)
    assert found == [(cidr, port, port) for cidr in ("2001:db8::/32", "203.0.113.0/24") for port in (80, 443)]
    onward = [each.inputs for each in graph.of(INGRESS) if each.inputs.get("referencedSecurityGroupId") == own]
    assert sorted((each["securityGroupId"], each["fromPort"]) for each in onward) == [(master, 80), (master, 443)]
    out = [each.inputs for each in graph.of(EGRESS) if each.inputs["securityGroupId"] == own]
    assert sorted((each["referencedSecurityGroupId"], each["fromPort"]) for each in out) == [
        (master, 80),
        (master, 443),
    ]


def test_it_stands_where_the_internet_gets_to_and_needs_the_way_there():
    for options, subnet in (
        ({}, "workers-ap-southeast-1a"),
        ({"zone": "ap-southeast-1b"}, "workers-ap-southeast-1b"),
        ({"private": True}, "nat-ap-southeast-1a"),
        ({"private": True, "zone": "ap-southeast-1b"}, "nat-ap-southeast-1a"),  # the only NAT gateway's
        ({"private": True, "internal": True, "zone": "ap-southeast-1b"}, "workers-ap-southeast-1b"),
    ):
        graph = with_ingress(**options)
        (balancer,) = graph.of("lb/loadBalancer:LoadBalancer")
        assert balancer.inputs["subnets"] == [graph.one("ec2/subnet:Subnet", subnet).id], options
        assert {each.urn for each in graph.of("ec2/route:Route")} <= graph.before(balancer.urn)


def test_no_role_may_touch_the_load_balancer_and_production_keeps_it():
    graph = with_ingress(production=True)
    assert graph.one("LoadBalancer", "shop-ingress").inputs["enableDeletionProtection"]
    assert "elasticloadbalancing" not in "".join(str(each.inputs["policy"]) for each in graph.of("RolePolicy"))


def test_a_long_name_is_cut_where_aws_takes_no_longer_one_and_stays_one_of_its_kind():
    names = Names(project="node-fleet", stack="development")
    cut = {names.short("a-cluster-of-shops-ingress", str(port)) for port in (80, 443)}
    assert len(cut) == 2
    assert all(len(each) <= 32 for each in cut)
    assert names.short("x") == names.of("x")
