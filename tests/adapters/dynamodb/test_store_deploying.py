"""A deployment that an operator writes is read as the stack's is."""

from nodefleet.adapters.dynamodb.store import put_deployment
from nodefleet.model.snapshot import Deployment, LaunchTarget
from support.dynamo_tables import NO_WAITING


def test_a_deployment_is_written_where_a_look_reads_it(table):
    target = LaunchTarget(template="lt-1", template_version="3", subnets={"a": "subnet-a"})
    first = Deployment(cluster="shop", api_server="https://10.0.1.10:6443", targets=(target,))
    put_deployment(table.client, table.table, first, patience=NO_WAITING)
    assert table.store("shop").state().deployment == first
    assert table.store("blog").state().deployment is None


def test_the_later_one_takes_the_place_of_the_earlier(table):
    for address in ("http://a:9090", "http://b:9090"):
        put_deployment(table.client, table.table, Deployment(cluster="shop", prometheus=address), patience=NO_WAITING)
    assert table.store("shop").state().deployment == Deployment(cluster="shop", prometheus="http://b:9090")
