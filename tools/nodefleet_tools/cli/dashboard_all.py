"""`nodefleet dashboard --all`: the page of all clusters that one deployment serves."""

import os

from nodefleet.model.names import SHARED_PARTITION
from nodefleet_tools.cli import connect
from nodefleet_tools.cli.clusters import cluster_rows
from nodefleet_tools.cli.dashboard import serve
from nodefleet_tools.dashboard.live import LiveSource
from nodefleet_tools.dashboard.overview import HOME, OverviewSource

_ALL_EVERY = 30.0  # seconds: two queries for each cluster


def serve_all(by: str, *, port: int, browser: bool, every: float, as_json: bool, table: str, bucket: str) -> None:
    """The overview of a deployment for many clusters, from which the page of each is opened."""
    with connect.connected(cluster=SHARED_PARTITION, table=table) as shared:
        cluster_rows(shared)  # a wrong table ends here, with a message

        def source_of(name: str) -> LiveSource:
            own = connect.connection(
                cluster=name, table=table, bucket=bucket, environment=os.environ, redact=shared.redact
            )
            own.governing()
            return LiveSource(own, every)

        source = OverviewSource(
            lambda: cluster_rows(shared, costs=True), source_of, shared.clock, by=by, every=max(every, _ALL_EVERY)
        )
        serve(source, port=port, browser=browser, by=by, as_json=as_json, home=HOME)
