"""What the stack and operators have written down: where things are, and the policy."""

from collections.abc import Iterator

from nodefleet.model.decision import PolicyVersion
from nodefleet.model.names import pluralize, some
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong
from nodefleet_tools.policy_review import review

_DEPLOY = "Deploy the stack again"
_ENOUGH_ZONES = 2


def deployment(ctx: DoctorContext) -> Iterator[Finding]:
    found = ctx.state.needed().deployment
    policy = ctx.policy.needed()
    if found is None:
        yield wrong(f"the table has no deployment record of {ctx.parts.cluster}", f"{_DEPLOY}, or fix the name")
        return
    findings = [*_wrongs(found, policy)]
    yield from findings
    if not any(finding.fix for finding in findings):
        yield fine(f"complete for {_pools(policy)}")


def _wrongs(found: Deployment, policy: Policy) -> Iterator[Finding]:
    targets = {target.pool: target for target in found.targets}
    for pool in policy.pools:
        target = targets.get(pool.name)
        if target is None:
            fix = f"{_DEPLOY} with this pool, or take it out of the policy"
            yield wrong(f"it says nothing of pool {pool.name}: no worker of it can be launched", fix)
        else:
            yield from _target(target)
    unused = [name for name in targets if policy.pool(name) is None]
    if unused:
        yield hint(f"it names pools that the policy does not have: {some(unused)}", "Take them out of the stack")


def _target(target: LaunchTarget) -> Iterator[Finding]:
    if not target.template:
        yield wrong(f"pool {target.pool} has no launch template", _DEPLOY)
    if not target.template_version.isdigit():
        said = f"pool {target.pool} names version {target.template_version!r} of its launch template, not a number"
        yield wrong(said, f"{_DEPLOY}: a request that is sent again must be the same")
    if not target.subnets:
        yield wrong(f"pool {target.pool} has no subnet", _DEPLOY)
    elif len(target.subnets) < _ENOUGH_ZONES:
        zone = next(iter(target.subnets))
        yield hint(f"pool {target.pool} is in one zone only: {zone}", "Give it a subnet in a second zone")


def policy(ctx: DoctorContext) -> Iterator[Finding]:
    state = ctx.state.needed()
    if state.policy is None:
        yield hint("none is written: the defaults hold", "Write one: nodefleet policy show, docs/policy.md")
    else:
        yield from _valid(ctx, state.policy)
    if state.declared is not None:
        yield _declared(ctx, state.declared, state.journal.adopted_policy)


def _valid(ctx: DoctorContext, version: PolicyVersion) -> Iterator[Finding]:
    try:
        read = ctx.parts.policies.read(version.data)
    except ValidationError as error:
        yield wrong(
            f"policy version {version.number} is no longer valid: {_first(error)}",
            "Put a good one in force: nodefleet policy apply FILE",
        )
        return
    dry = [pool.name for pool in read.pools if pool.dry_run]
    words = f"version {version.number}, by {version.source}, is in force"
    yield fine(f"{words}{f'; dry run: {some(dry)}' if dry else ''}")
    found = review(read)
    for each in found.problems:
        yield wrong(f"{each.path} {each.wrong}", f"{each.right[:1].upper()}{each.right[1:]}")
    for each in found.warnings:
        yield hint(f"{each.path} {each.wrong}", f"{each.right[:1].upper()}{each.right[1:]}")


def _declared(ctx: DoctorContext, version: PolicyVersion, adopted: str) -> Finding:
    try:
        ctx.parts.policies.read(version.data)
    except ValidationError as error:
        fix = "Fix it in the stack (nodefleet policy check FILE), and deploy again"
        return wrong(f"the policy that the stack declares is refused: {_first(error)}", fix)
    taken_up = "has been taken up" if version.digest == adopted else "is taken up by the next run"
    return fine(f"the policy that the stack declares is valid and {taken_up}")


def _first(error: ValidationError) -> str:
    first, *others = error.problems
    return f"{first.path} {first.wrong}: {first.right}{f' (and {len(others)} more)' if others else ''}"


def _pools(policy: Policy) -> str:
    names = [pool.name for pool in policy.pools]
    return f"{pluralize(len(names), 'pool', 'pools')}: {some(names)}"
