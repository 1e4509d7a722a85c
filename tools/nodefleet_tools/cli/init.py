"""`nodefleet init`: adopt a K3s cluster that exists."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from nodefleet.errors import NodeFleetError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.names import pluralize
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import ClusterView, Deployment
from nodefleet.policy.loading import digest_of, load
from nodefleet_tools.adopting import plan
from nodefleet_tools.adopting.inspect import Found, inspect, zones
from nodefleet_tools.adopting.plan import Chosen, Template
from nodefleet_tools.cli import connect
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.deployment_file import address_issues
from nodefleet_tools.cli.environment import KUBECONFIG, InputError, region_in, the_cluster
from nodefleet_tools.cli.operators import confirm_destructive, event, is_at_terminal, someone
from nodefleet_tools.cli.options import Strategy
from nodefleet_tools.cli.outcome import is_json, note_change, print_json
from nodefleet_tools.cli.policy_file import parsed, policy_or_exit, text_of

_CLUSTER = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")  # also of the template's and the table's name
_TABLE = re.compile(r"[-_.A-Za-z0-9]{3,255}")
_PRIVATE = 0o600  # user data may hold the token that nodes join with
_POLICY = "policy.yaml"
_SECRET = ("user-data.sh", "launch-template.json")


def init(
    *,
    worker: str,
    pool: str,
    least: int,
    most: int | None,
    strategy: Strategy,
    prometheus: str,
    subnet: list[str] | None,
    manage_existing: bool,
    out: Path,
    apply: bool,
    yes: bool,
    as_json: bool,
    cluster: str,
    table: str,
) -> None:
    name = the_cluster(cluster, os.environ) or _asked("The cluster's name", "--cluster")
    address = (
        prometheus or os.environ.get("PROMETHEUS_URL", "").strip() or _asked("Prometheus's address", "--prometheus")
    )
    named = table or f"node-fleet-{name}"
    with connect.connected(cluster=name, table=named) as connection:
        _check(name, named, address)
        found = _inspect(connection, worker)
        chosen = Chosen(
            cluster=name,
            table=named,
            pool=pool,
            least=least,
            most=most or max(2 * len(found.workers), least + 1),
            strategy=strategy.value,
            prometheus=address,
            subnets=zones(found, subnet or [], connection.session.client("ec2")),
            manage_existing=manage_existing,
        )
        load(plan.policy_data(found, chosen))  # limits that make no sense end here, before anything is written
        policy = _edited(out / _POLICY, plan.policy_data(found, chosen)) or plan.policy_text(found, chosen)
        template = _template_there(connection, chosen)
        written = _write(out, {**plan.files(found, chosen, template), _POLICY: policy})
        _say_plan(found, chosen, template, written, apply=apply)
        if apply:
            confirm_destructive("Create it?", yes=yes)
            template = _create(connection, found, chosen, policy)
            _write(out, {**plan.files(found, chosen, template), _POLICY: policy})
        _conclude(chosen, template, written, out, applied=apply, as_json=as_json)


def _asked(what: str, option: str) -> str:
    if not is_at_terminal() or is_json():
        raise typer.BadParameter(f"{what} is missing", param_hint=option)
    answer: str = typer.prompt(what)
    return answer.strip()


def _check(cluster: str, table: str, prometheus: str) -> None:
    """What would end in AWS's words, or in none, when it is too late."""
    if not _CLUSTER.fullmatch(cluster):
        raise InputError(f"--cluster: {cluster!r} cannot be a tag: write letters, digits, dashes and dots, 63 at most")
    if not _TABLE.fullmatch(table):
        raise InputError(
            f"--table: {table!r} cannot be a table: write 3 to 255 letters, digits, dashes, dots and underscores"
        )
    if issues := list(address_issues(Deployment(cluster=cluster, prometheus=prometheus))):
        raise ValidationError(issues)


def _inspect(connection: Connection, worker: str) -> Found:
    if not connection.variable(KUBECONFIG):
        raise InputError("how to reach the cluster: set KUBECONFIG to a file whose context may list nodes")
    view = connection.cluster.view()
    if not isinstance(view, ClusterView):
        raise InputError(f"the cluster cannot be read: {view.cause}. Set KUBECONFIG")
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415  # the session's EC2 client reads only what runs need

    boto = boto3.Session(region_name=region_in(os.environ))
    return inspect({name: boto.client(name) for name in ("sts", "ec2", "iam")}, view.nodes, worker)


def _edited(path: Path, made: object) -> str:
    """The policy as an operator left it, if it is not what would be written: their limits are never overwritten."""
    if not path.exists():
        return ""
    policy_or_exit(path)
    text = text_of(path)
    if parsed(text).data == made:
        return ""
    print(f"{path} is kept as it is, and --apply stores it. Delete it for a new one.", file=sys.stderr)
    return text


def _write(out: Path, contents: dict[str, str]) -> list[Path]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            path = out / name
            path.touch(mode=_PRIVATE if name in _SECRET else 0o644)
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from error
    return [out / name for name in contents]


def _template_there(connection: Connection, chosen: Chosen) -> Template:
    """What exists is named in the files: rights on a template that is not there would be applied by mistake."""
    from nodefleet_tools.adopting import create  # noqa: PLC0415  # loads botocore

    return create.find_template(connection.session.client("ec2"), chosen)


def _say_plan(found: Found, chosen: Chosen, template: Template, written: Sequence[Path], *, apply: bool) -> None:
    """On stderr: with --json, standard output is the answer alone."""
    lines = [
        (
            f"Account {found.account}, region {found.region}; {chosen.cluster} has"
            f" {pluralize(len(found.workers), 'worker', 'workers')} and"
            f" {pluralize(len(found.servers), 'server', 'servers')} that are known."
            f" New workers will be like {found.worker.id}."
        ),
        f"Written: {', '.join(str(path) for path in written)}",
        "To be created, if it is not there:" if apply else "With --apply this would be created, if it is not there:",
        *(f"  - {step}" for step in plan.steps(found, chosen, template)),
        *(f"warning: {each}" for each in _warnings(found)),
    ]
    print("\n".join(lines), file=sys.stderr)


def _warnings(found: Found) -> list[str]:
    warnings = []
    if not found.user_data:
        warnings.append(
            f"{found.worker.id} has no user data: its image must join the cluster by itself, or name another --worker"
        )
    elif not found.user_data.lstrip("\ufeff").startswith("#!"):
        warnings.append("the worker's user data is no shell script: look at user-data.sh before you use it")
    if not found.servers:
        warnings.append("no server could be matched with an instance: tag it node-fleet:role=server yourself")
    return warnings


def _create(connection: Connection, found: Found, chosen: Chosen, policy: str) -> Template:
    from nodefleet_tools.adopting import create  # noqa: PLC0415  # loads botocore

    def report(sentence: str) -> None:
        note_change(sentence)
        print(sentence, file=sys.stderr)

    create.create_table(connection.session.client("dynamodb"), chosen, report)
    template = create.create_template(connection.session.client("ec2"), found, chosen, report)
    create.tag_instances(connection.session.client("ec2"), found, chosen, report)
    connection.put_deployment(plan.deployment(chosen, template))
    report(f"The deployment of {chosen.cluster} is stored.")
    state = connection.store.state()
    if state.policy is not None:
        report(f"Policy version {state.policy.number} is in force already and is kept.")
        return template
    data = parsed(policy).data
    dry = all(each.dry_run for each in load(data).policy.pools)
    version = PolicyVersion(number=1, source=someone(), at=connection.clock(), data=data, digest=digest_of(data))
    text = f"{version.source} adopted {chosen.cluster} with policy version 1{', a dry run' if dry else ''}."
    connection.history.apply(version, event(connection, AlertKind.POLICY_CHANGED, text))
    report(f"Policy version 1 is in force. It is {'a dry run' if dry else 'no dry run: the next run acts'}.")
    _ask_prices(connection, found, report)
    return template


def _ask_prices(connection: Connection, found: Found, report: Callable[[str], None]) -> None:
    """Prices are for counting and for the choice of types: adopting goes on without them."""
    from nodefleet_tools.pricing import refresh  # noqa: PLC0415  # loads botocore

    try:
        known = refresh(connection, sorted({each.type for each in found.workers}))
    except NodeFleetError as error:
        connection.warn(f"prices were not asked ({error}): try `nodefleet prices --refresh` later")
    else:
        report(f"Prices of {pluralize(len(known.on_demand), 'type', 'types')} are kept in the table.")


def _conclude(
    chosen: Chosen, template: Template, written: Sequence[Path], out: Path, *, applied: bool, as_json: bool
) -> None:
    export = f"export NODEFLEET_CLUSTER={chosen.cluster} NODEFLEET_TABLE={chosen.table}"
    following = [export, "nodefleet doctor", "nodefleet run --once", f"kubectl apply -f {out / 'rbac.yaml'}"]
    if as_json:
        files = [str(path) for path in written]
        made = template.id if template.exists else None
        print_json({"files": files, "table": chosen.table, "template": made, "next": following if applied else []})
    elif applied:
        print("Next:\n" + "\n".join(f"  {line}" for line in following[:3]))
        print(f"To run it as a ServiceAccount of the cluster: {following[3]}")
        print(f"The IAM policy of what runs it: {out / 'iam-policy.json'}")
    else:
        print(f"Nothing was created. Look at {out}/, then say --apply, or apply the files yourself (docs/adopt.md).")
