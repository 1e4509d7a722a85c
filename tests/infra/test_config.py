"""A stack's configuration: what is taken, and what is refused, all at once and before anything is declared."""

import copy

import pytest
import yaml

from nodefleet.model.serialization import ValidationError
from nodefleet_infra.stack import stack_from
from support.infra_mocks import DEV, PRODUCTION, ROOT
from support.wording import assert_wording

REGION = "ap-southeast-1"
GOOD = {
    "network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
    "clusters": [{"name": "shop", "policy": {"market": {"types": ["t3.small", "t3a.small"]}}}],
}


def changed(**changes):
    """The good configuration with values at other places: a path with dots, numbers for lists."""
    data = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        holder = data
        for key in parents:
            holder = holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key]
        holder[last] = value
    return data


def stack(data=None, name="dev", region=REGION):
    return stack_from("node-fleet", name, region, GOOD if data is None else data)


def problems(data, **others):
    with pytest.raises(ValidationError) as refused:
        stack(data, **others)
    return [str(problem) for problem in refused.value.problems]


# ── what is taken ────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_zones_and_a_name_are_enough():
    made = stack({"network": GOOD["network"], "clusters": [{"name": "shop"}]})
    (cluster,) = made.clusters
    (pool,) = cluster.pools
    assert (cluster.id, cluster.name, pool.name, pool.arch) == ("dev-shop", "shop", "default", "x86_64")
    assert (cluster.master.type, pool.disk_gb) == ("t3.medium", 20)
    assert (cluster.policy.pools[0].limits.min, cluster.policy.pools[0].limits.max) == (2, 10)
    assert made.config.autoscaler.reserved_concurrency.interruption is None


@pytest.mark.parametrize("file", [DEV, PRODUCTION])
def test_the_examples_are_good(file):
    written = yaml.safe_load((ROOT / file).read_text())["config"]
    data = {key.removeprefix("node-fleet:"): value for key, value in written.items() if key != "aws:region"}
    assert stack(data, region=written["aws:region"]).clusters


def test_pools_are_what_the_policy_says_with_machines_of_their_own():
    policy = {
        "pools": [
            {"name": "web", "market": {"types": ["t3.small"]}},
            {
                "name": "builds",
                "market": {"types": ["c7g.large", "c6g.large"]},
                "labels": {"example.com/work": "builds"},
                "taints": [{"key": "example.com/builds", "effect": "NoSchedule"}],
            },
        ]
    }
    made = stack(changed(clusters=[{"name": "shop", "policy": policy, "machines": {"builds": {"disk_gb": 80}}}]))
    web, builds = made.clusters[0].pools
    assert (web.arch, web.disk_gb, web.types) == ("x86_64", 20, ("t3.small",))
    assert (builds.arch, builds.disk_gb, dict(builds.labels)) == ("arm64", 80, {"example.com/work": "builds"})
    assert [taint.key for taint in builds.taints] == ["example.com/builds"]


def test_the_same_name_is_another_cluster_in_another_stack():
    assert stack(name="dev").cluster_ids() != stack(name="production").cluster_ids()


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_that_is_wrong_is_named_at_once():
    said = problems(
        {
            "network": {"zones": ["ap-southeast-1a"], "cidr": "10.20.0.0/33"},
            "clusters": [
                {"name": "shop", "policy": {"limits": {"min": 9, "max": 3}}},
                {"name": "shop", "policy": {"market": {"types": ["t9.small"]}}},
                {"name": "Blog_1", "master": {"type": "t3.tiny"}, "machines": {"web": {}}},
            ],
            "autoscaler": {"schedul": {}},
            "messages": {"emails": ["nobody"], "approvers": ["anna"], "slack": False},
        }
    )
    for path, words in {
        "network.zones": "fewer than 2 availability zones",
        "network.cidr": "is not a network",
        "clusters[0].policy.limits.min": "min must not be more than max",
        "clusters[1].policy.market.types": "is no instance type of EC2; did you mean",
        "clusters:": "would be named node-fleet-dev-shop-master; cluster shop has the same name",
        "clusters[2].name": "cannot be part of names",
        "clusters[2].master.type": "is no instance type of EC2",
        "clusters[2].machines.web": "is no pool of the policy",
        "autoscaler.schedul": "is an unknown key; did you mean schedule?",
        "messages.emails[0]": "is not an address",
        "messages.approvers[0]": "is not the id of a Slack user",
        "messages.approvers": "needs Slack",
    }.items():
        assert any(line.startswith(path) and words in line for line in said), f"nothing says {path}: {words}\n{said}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"network.zones": []}, "fewer than 2"),
        ({"network.zones": ["ap-southeast-1a", "ap-southeast-1a"]}, "names a zone twice"),
        ({"network.zones": ["eu-west-1a", "eu-west-1b"]}, "is no availability zone of ap-southeast-1"),
        ({"network.zones": [f"ap-southeast-1{letter}" for letter in "abcdefg"]}, "more than 6"),
        ({"network.cidr": "8.8.0.0/16"}, "is not a private IPv4 network"),
        ({"network.cidr": "10.20.0.1/16"}, "is not a network (10.20.0.1/16 has host bits set)"),
        ({"network.cidr": "fd00::/56"}, "is not a private IPv4 network"),
        ({"network.cidr": "10.0.0.0/8"}, "is not between /16 and /22"),
        ({"network.cidr": "10.42.0.0/16"}, "overlaps 10.42.0.0/16, which K3s uses"),
        ({"network.workers": "secret"}, "is not a choice here"),
        ({"network.existing": {"vpc": "my-vpc", "workers": {}, "functions": []}}, "is not an id"),
        ({"clusters": []}, "is not a list of clusters"),
        ({"clusters": {"name": "shop"}}, "is not a list of clusters"),
        ({"clusters.0.name": ""}, "cannot be part of names"),
        ({"clusters.0.name": "a" * 21}, "cannot be part of names"),
        ({"clusters.0.nam": "shop"}, "is an unknown key; did you mean name?"),
        ({"clusters.0.policy": {"preset": "huge"}}, "is not a choice here"),
        ({"clusters.0.policy": {"market": {"types": ["t3.small", "t4g.small"]}}}, "are for arm64 and x86_64"),
        ({"clusters.0.policy": {"pools": [{"name": "a"}, {"name": "a"}]}}, "each needs a name of its own"),
        ({"clusters.0.master": {"zone": "ap-southeast-1c"}}, "is not one of the zones"),
        ({"clusters.0.master": {"disk_gb": 4}}, "is too small"),
        ({"clusters.0.master": {"snapshots": 0}}, "keeps no snapshot"),
        ({"clusters.0.k3s": {"version": "1.34", "sha256": {}}}, "is not a release"),
        ({"clusters.0.k3s": {"version": "v1.34.2+k3s1", "sha256": {}}}, "has no checksum"),
        ({"clusters.0.k3s": {"version": "v1.34.2+k3s1", "sha256": {"x86_64": "abc"}}}, "is not a SHA-256"),
        (
            {"clusters.0.k3s": {"version": "v1.34.2+k3s1", "sha256": {"arm64": "0" * 64}}},
            "sha256.x86_64: None is missing",
        ),
        ({"autoscaler.memory": {"report": 64}}, "beyond Lambda's limits"),
        ({"autoscaler.log_days": 31}, "is not a number of days to keep logs"),
        ({"autoscaler.reserved_concurrency": {"reconcile": 0}}, "would stop it"),
        ({"autoscaler.reserved_concurrency": {"interruption": 1}}, "is less than its queue needs"),
        ({"autoscaler.metrics": ["HourlyCosts"]}, "did you mean HourlyCost?"),
        ({"autoscaler.schedule": {"every": "7m"}}, "is not an interval that EventBridge can keep"),
        ({"autoscaler.schedule": {"every": "30s"}}, "is not an interval that EventBridge can keep"),
        ({"autoscaler.schedule": {"time_zone": "Mars/Base"}}, "is not a time zone"),
        ({"autoscaler.schedule": {"report_hour": 24}}, "is not an hour of the day"),
        ({"autoscaler.schedule": {"night": {"from_hour": 6, "until_hour": 6}}}, "is also where the night begins"),
        ({"autoscaler.schedule": {"night": {"every": "2m"}}}, "is not less often than by day"),
        ({"tags": {"Project": "mine"}}, "is a tag that is set already"),
        ({"tags": {"node-fleet:role": "server"}}, "is a tag that is set already"),
        ({"prices": {"t3.small": 0}}, "is not a price"),
        ({"colour": "blue"}, "is an unknown key"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(changes, words):
    said = problems(changed(**changes))
    assert any(words in line for line in said), said


def test_every_processor_of_a_cluster_needs_a_checksum_and_all_that_lack_one_are_named():
    release = {"version": "v1.34.2+k3s1", "sha256": {"x86_64": "0" * 64}}
    pools = [{"name": "web", "market": {"types": ["t3.small"]}}, {"name": "arm", "market": {"types": ["t4g.small"]}}]
    (line,) = problems(changed(**{"clusters.0.k3s": release, "clusters.0.policy": {"pools": pools}}))
    assert_wording(line)
    broken = {"clusters.0.k3s": release, "clusters.0.master": {"type": "t4g.medium"}, "clusters.0.policy": {"x": 1}}
    assert line in problems(changed(**broken))  # a broken policy does not hide what the master lacks


def test_a_stack_needs_a_region_and_a_name_that_aws_takes():
    assert any("aws:region" in line for line in problems(GOOD, region=""))
    for name in ("x" * 30, "Dev", "my_stack"):
        assert_wording(problems(GOOD, name=name))


def test_names_that_come_out_the_same_are_refused():
    clusters = [
        {"name": "shop", "policy": {"pools": [{"name": "web-blue"}, {"name": "rest"}]}},
        {"name": "shop-web", "policy": {"pools": [{"name": "blue"}, {"name": "rest"}]}},
    ]
    (line,) = problems(changed(clusters=clusters))
    assert_wording(line)
    assert_wording(problems(changed(clusters=[{"name": "a", "policy": {"pools": [{"name": "master"}]}}])))


def test_one_wrong_section_does_not_hide_what_is_wrong_in_others():
    said = problems(
        changed(**{"network.nat": 3, "clusters.0.master": {"zone": 7}, "clusters.0.policy": {"interval": "?"}})
    )
    assert {line.split(":")[0] for line in said} >= {
        "network.nat",
        "clusters[0].master.zone",
        "clusters[0].policy.interval",
    }


# ── the pace of readings ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_night_in_which_no_reading_could_ever_be_sustained_is_refused():
    (line,) = problems(changed(**{"autoscaler.schedule": {"night": {"every": "5m"}}}))
    assert_wording(line)
    fine = {"autoscaler.schedule": {"night": {"every": "5m"}}, "clusters.0.policy": {"trust": {"gap": 2.5}}}
    assert stack(changed(**fine))


def test_a_schedule_and_a_policy_with_different_intervals_are_refused():
    assert_wording(problems(changed(**{"autoscaler.schedule": {"every": "1m"}})))
    assert_wording(problems(changed(**{"autoscaler.schedule": {"every": "10m"}})))


def test_a_burst_must_end_before_the_function_is_stopped():
    policy = {"interval": "2m", "burst": {"budget": "118s"}}
    assert_wording(problems(changed(**{"clusters.0.policy": policy})))
