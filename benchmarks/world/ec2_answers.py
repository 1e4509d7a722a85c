"""EC2 as the stand-in answers it: XML with all that EC2 writes about an instance, about 5 KB each."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from world.scene import CLUSTER, TYPE, ZONES, Scene, address, instance_id, node_name

TYPES = {"t3.medium": (2, 4096), "t3a.medium": (2, 4096)}
_ON_DEMAND_OF_TEN = 3  # as the policy's default share wants it: else a quiet run would launch Spot in its place
_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class Ec2Answers:
    """For one scene. What is launched is numbered on, and does not turn up in later lists."""

    def __init__(self, scene: Scene) -> None:
        born = datetime.now(UTC) - timedelta(days=1)
        self._instances = [_instance(number, born) for number in range(scene.nodes)]
        self._by_id = {instance_id(number): xml for number, xml in enumerate(self._instances)}
        self._launched = scene.nodes

    def answer(self, asked: Mapping[str, str]) -> bytes:
        match asked["Action"]:
            case "DescribeInstances":
                return self._described(asked)
            case "DescribeInstanceTypes":
                content = f"<instanceTypeSet>{''.join(map(_type, TYPES))}</instanceTypeSet>"
            case "DescribeSpotPriceHistory":
                prices = (_price(kind, zone) for kind in TYPES for zone in ZONES)
                content = f"<spotPriceHistorySet>{''.join(prices)}</spotPriceHistorySet>"
            case "CreateFleet":
                content = self._fleet(asked)
            case action:
                raise LookupError(f"the stand-in knows no {action} of EC2")
        return _wrapped(asked["Action"], content)

    def _described(self, asked: Mapping[str, str]) -> bytes:
        named = [value for key, value in asked.items() if key.startswith("InstanceId.") or _names_an_instance(value)]
        if named:
            found, following = [self._by_id[one] for one in named if one in self._by_id], ""
        else:
            start, size = int(asked.get("NextToken", 0)), int(asked.get("MaxResults", 1000))
            found = self._instances[start : start + size]
            following = str(start + size) if start + size < len(self._instances) else ""
        token = f"<nextToken>{following}</nextToken>" if following else ""
        return _wrapped("DescribeInstances", f"<reservationSet>{''.join(found)}</reservationSet>{token}")

    def _fleet(self, asked: Mapping[str, str]) -> str:
        count = int(asked["TargetCapacitySpecification.TotalTargetCapacity"])
        numbers = range(self._launched, self._launched + count)
        self._launched += count
        ids = "".join(f"<item>{instance_id(number)}</item>" for number in numbers)
        given = f"<item><instanceIds>{ids}</instanceIds><instanceType>{TYPE}</instanceType></item>"
        return f"<fleetId>fleet-1</fleetId><fleetInstanceSet>{given}</fleetInstanceSet>"


def _names_an_instance(value: str) -> bool:
    return value.startswith("i-")


def _wrapped(action: str, content: str) -> bytes:
    answer = f"{action}Response"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{answer} xmlns="{_NAMESPACE}">'
        f"<requestId>8f7724cf-496f-496e-8fe3-example</requestId>{content}</{answer}>"
    ).encode()


def _instance(number: int, born: datetime) -> str:
    identity, zone = instance_id(number), ZONES[number % len(ZONES)]
    spot = number % 10 >= _ON_DEMAND_OF_TEN
    lifecycle = "<instanceLifecycle>spot</instanceLifecycle>" if spot else ""
    own_address, name = address(number), node_name(number)
    launched = f"{born:%Y-%m-%dT%H:%M:%S.000Z}"
    tags = {
        "node-fleet:cluster": CLUSTER,
        "node-fleet:pool": "default",
        "node-fleet:role": "worker",
        "node-fleet:operation": f"launch-{number:06}",
        "node-fleet:capacity-type": "spot" if spot else "on-demand",
        "Project": "node-fleet",
        "ManagedBy": "node-fleet",
        "Name": f"{CLUSTER}-default",
        "aws:ec2:fleet-id": "fleet-1",
        "aws:ec2launchtemplate:id": "lt-0abcdef1234567890",
        "aws:ec2launchtemplate:version": "7",
    }
    tagged = "".join(f"<item><key>{key}</key><value>{value}</value></item>" for key, value in tags.items())
    group = "<item><groupId>sg-0123456789abcdef0</groupId><groupName>workers</groupName></item>"
    return (
        f"<item><reservationId>r-{number:017x}</reservationId><ownerId>123456789012</ownerId><groupSet/>"
        f"<instancesSet><item><instanceId>{identity}</instanceId><imageId>ami-0abcdef1234567890</imageId>"
        "<instanceState><code>16</code><name>running</name></instanceState>"
        f"<privateDnsName>{name}</privateDnsName><dnsName/><reason/><amiLaunchIndex>0</amiLaunchIndex><productCodes/>"
        f"<instanceType>{TYPE}</instanceType><launchTime>{launched}</launchTime>"
        f"<placement><availabilityZone>{zone}</availabilityZone><groupName/><tenancy>default</tenancy></placement>"
        f"<monitoring><state>disabled</state></monitoring><subnetId>subnet-{zone}</subnetId>"
        f"<vpcId>vpc-0123456789abcdef0</vpcId><privateIpAddress>{own_address}</privateIpAddress>"
        f"<sourceDestCheck>true</sourceDestCheck><groupSet>{group}</groupSet><architecture>x86_64</architecture>"
        "<rootDeviceType>ebs</rootDeviceType><rootDeviceName>/dev/xvda</rootDeviceName>"
        "<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs>"
        f"<volumeId>vol-{number:017x}</volumeId><status>attached</status><attachTime>{launched}</attachTime>"
        "<deleteOnTermination>true</deleteOnTermination></ebs></item></blockDeviceMapping>"
        f"<virtualizationType>hvm</virtualizationType>{lifecycle}<clientToken>fleet-{number:032x}</clientToken>"
        f"<tagSet>{tagged}</tagSet><hypervisor>xen</hypervisor>"
        f"<networkInterfaceSet>{_interface(number, launched)}</networkInterfaceSet>"
        "<iamInstanceProfile><arn>arn:aws:iam::123456789012:instance-profile/worker</arn><id>AIPAEXAMPLE</id>"
        "</iamInstanceProfile><ebsOptimized>false</ebsOptimized><enaSupport>true</enaSupport>"
        "<cpuOptions><coreCount>1</coreCount><threadsPerCore>2</threadsPerCore></cpuOptions>"
        "<capacityReservationSpecification><capacityReservationPreference>open</capacityReservationPreference>"
        "</capacityReservationSpecification><hibernationOptions><configured>false</configured></hibernationOptions>"
        "<enclaveOptions><enabled>false</enabled></enclaveOptions><metadataOptions><state>applied</state>"
        "<httpTokens>required</httpTokens><httpPutResponseHopLimit>1</httpPutResponseHopLimit>"
        "<httpEndpoint>enabled</httpEndpoint><httpProtocolIpv6>disabled</httpProtocolIpv6>"
        "<instanceMetadataTags>disabled</instanceMetadataTags></metadataOptions>"
        "<maintenanceOptions><autoRecovery>default</autoRecovery></maintenanceOptions>"
        "<currentInstanceBootMode>legacy-bios</currentInstanceBootMode><platformDetails>Linux/UNIX</platformDetails>"
        "<usageOperation>RunInstances</usageOperation>"
        f"<usageOperationUpdateTime>{launched}</usageOperationUpdateTime>"
        "<privateDnsNameOptions><hostnameType>ip-name</hostnameType><enableResourceNameDnsARecord>false"
        "</enableResourceNameDnsARecord><enableResourceNameDnsAAAARecord>false</enableResourceNameDnsAAAARecord>"
        "</privateDnsNameOptions></item></instancesSet></item>"
    )


def _interface(number: int, launched: str) -> str:
    own_address, name = address(number), node_name(number)
    return (
        f"<item><networkInterfaceId>eni-{number:017x}</networkInterfaceId><subnetId>subnet-1</subnetId>"
        "<vpcId>vpc-0123456789abcdef0</vpcId><description/><ownerId>123456789012</ownerId><status>in-use</status>"
        f"<macAddress>02:42:ac:11:00:02</macAddress><privateIpAddress>{own_address}</privateIpAddress>"
        f"<privateDnsName>{name}</privateDnsName><sourceDestCheck>true</sourceDestCheck>"
        "<groupSet><item><groupId>sg-0123456789abcdef0</groupId><groupName>workers</groupName></item></groupSet>"
        f"<attachment><attachmentId>eni-attach-{number:017x}</attachmentId><deviceIndex>0</deviceIndex>"
        f"<status>attached</status><attachTime>{launched}</attachTime><deleteOnTermination>true</deleteOnTermination>"
        "<networkCardIndex>0</networkCardIndex></attachment>"
        f"<privateIpAddressesSet><item><privateIpAddress>{own_address}</privateIpAddress>"
        f"<privateDnsName>{name}</privateDnsName><primary>true</primary></item></privateIpAddressesSet>"
        "<ipv6AddressesSet><item><ipv6Address>2001:db8::1</ipv6Address><isPrimaryIpv6>false</isPrimaryIpv6></item>"
        "</ipv6AddressesSet><interfaceType>interface</interfaceType><operator><managed>false</managed></operator></item>"
    )


def _type(name: str) -> str:
    cpus, memory = TYPES[name]
    return (
        f"<item><instanceType>{name}</instanceType><currentGeneration>true</currentGeneration>"
        f"<vCpuInfo><defaultVCpus>{cpus}</defaultVCpus><defaultCores>1</defaultCores></vCpuInfo>"
        f"<memoryInfo><sizeInMiB>{memory}</sizeInMiB></memoryInfo></item>"
    )


def _price(kind: str, zone: str) -> str:
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.000Z}"
    return (
        f"<item><instanceType>{kind}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>0.014100</spotPrice><timestamp>{at}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
    )
