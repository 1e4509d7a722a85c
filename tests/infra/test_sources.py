"""What the functions need to ask a policy's demand sources: logins of those only, and ports to private addresses."""

from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import Celery, Github, HttpJson, Prometheus, Rabbitmq, Redis
from nodefleet_infra.interfaces import Place
from nodefleet_infra.sources import source_ports, source_secrets

PLACE = Place(region="eu-west-1", account="123456789012", partition="aws")
READINGS = {
    "a": Redis(address="rediss://queue:6380/0", key="q", secret="redis"),
    "b": Celery(address="redis://queue", secret="redis"),
    "c": Rabbitmq(url="http://rabbit:15672", queue="q", secret="rabbit"),
    "d": HttpJson(url="https://tasks/stats", value="/a"),
    "e": HttpJson(url="http://tasks/stats", value="/a"),
    "f": Prometheus(query="up"),
    "g": Github(api="https://git.internal:8443/api/v3", repositories=("shop/web",), secret="github"),
}
POLICY = Policy(pools=(Pool(readings=READINGS),))


def test_the_logins_that_a_policy_names_and_no_others():
    prefix = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:node-fleet/shop/sources"
    assert source_secrets(POLICY, PLACE, "node-fleet/shop") == (
        f"{prefix}/redis-??????",
        f"{prefix}/rabbit-??????",
        f"{prefix}/github-??????",
    )
    assert source_secrets(Policy(), PLACE, "node-fleet/shop") == ()


def test_the_ports_besides_https():
    assert source_ports(POLICY) == {6380, 6379, 15672, 80, 8443}
    assert source_ports(Policy()) == frozenset()
