"""Liveness: what must happen, and within what time. The guard (`invariants`) says what must never happen.

registry      the checks of a world: when their clocks start, how they are polled, what is still awaited
check         the base of a check
conditions    facts of the world that a check depends on: launches work, below max, a part answers
shrinking     an idle fleet reaches min, with one exporter or one node in doubt
finishing     an operation is closed within the time that its deadlines give: the example
mutes         pods without a vote are heard again
rotating      a worker that is due for rotation is replaced
interruptions what is recorded as interrupted takes no pods when EC2 takes it
quiet         alerts of one continuing condition are few, however pod names and figures change

**How it works.** `world.liveness.begin()` starts the clocks; nothing is judged before. Chaos calls it when the trouble
is over (`rest.calm_down`), a scenario at its start; a test calls it when its schedule begins. From then on every check
is polled every 30 s of simulated time. A check answers with its *open cases*: subjects that are not as they must be,
and for each the longest that it may stay so. The registry remembers since when a subject has been open without a break,
and reports it once, through `world.guard.broken(…)`, when it is overdue. A subject that is no longer named starts from
nothing when it comes back: so a check leaves out what it cannot demand now (EC2 refuses, a part does not answer).

**How to add one.**
1. A `Rule` in `sim/rules.py`, with its line in the table there.
2. A file here with a subclass of `Check`: `rule`, and `cases()`.

       class Healing(Check):
           rule = Rule.HEALING

           def cases(self) -> Mapping[str, timedelta]:
               world = self.world
               if not world.conditions.launches_work:
                   return {}
               return {f"node {node.name} is not ready": bound(world, node) for node in … if not node.ready}

   What is no state that lasts (a count of alerts, replicas that are down at one moment) overrides `broken()` instead,
   and yields a sentence for each violation. `begun()` is called once, when the clocks start.
   A poll is cheap: it runs 120 times per simulated hour and seed. Ask `world.kube`, `world.ec2` and `world.table`; the
   truth, not what a run was told.
3. A line in `CHECKS` in `registry`.
4. A test in `tests/sim/test_liveness_<name>.py`: it is reported when it is overdue, and not before; and a bug in
   `chaos/planted.py` that this check finds, with its line in `tests/sim/test_chaos_planted.py`.

Chaos goes on until no check has an open case, or its patience is over: a case must be something that ends. What nobody
can fix (a pod that no node could ever hold) is no case.
"""
