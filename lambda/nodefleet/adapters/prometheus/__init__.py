"""Prometheus, all queries of a look at once.

promql    the pool's name put into a query
client    one query over HTTP; whatever goes wrong is Missing with a cause
answer    what the answer says: one number, or one for each node

**When was it sampled?** An instant query is dated with its evaluation, which is always now, however old the samples
behind it are: a Prometheus that came back after an outage answers with new dates and old data, and `sum(x) or
vector(0)` gives a fresh zero out of nothing. The age of the samples in somebody's own PromQL cannot be asked without
taking it apart. So each look asks one query more, how long ago this Prometheus last scraped anything, and all its
readings are that old (`NEWEST`). It costs one cheap query for a look, whatever the policy asks, and shows when
scraping as a whole stands still. One target that is away shows otherwise: its series end with the failed scrape, and
the number of workers seen (`queries.nodes`) no longer agrees with the cluster. A rate goes on for its whole window
even then, so the default queries keep only series of targets that are up.

**By whose clock?** The age is measured by the server's clock alone and taken off ours. So two clocks that differ make
neither fresh data stale nor stale data fresh, and no reading lies in the future. Only when they differ by more than a
reading may be old is it missing: after such a jump nobody knows what "now" the server has answered for.
"""
