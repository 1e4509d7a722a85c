"""A workload is known by its pods' names without what Kubernetes adds to them."""

import pytest

from nodefleet.engine.context import workload_of


@pytest.mark.parametrize(
    ("pod", "belongs_to"),
    [
        ("shop/web-6d9f8c7b5-x2x4z", "shop/web"),  # a Deployment's
        ("shop/web-x2x4z", "shop/web"),  # a ReplicaSet's or a Job's
        ("ml/nightly-29387520-bk7vq", "ml/nightly"),  # a CronJob's
        ("ml/train-0", "ml/train"),  # a StatefulSet's
        ("ml/train-1-12", "ml/train"),
        ("shop/redis", "shop/redis"),
        ("shop/web-proxy", "shop/web-proxy"),
        ("7/x", "7/x"),
    ],
)
def test_the_workload_of_a_pod(pod, belongs_to):
    assert workload_of(pod) == belongs_to
