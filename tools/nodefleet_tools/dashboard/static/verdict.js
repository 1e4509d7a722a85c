// The first thing that an operator wants to know: is everything well, and if not, what is the worst of it.
import { clock, plural, span } from "./format.js";

const LEVELS = {
  degraded: "Metrics are missing. The fleet may grow for pending pods, and does not shrink.",
  partial: "EC2 or Kubernetes cannot be read. Nothing is launched, drained or cleaned up.",
  major: "The state table cannot be read. Nothing is scaled.",
  recovery: "Everything is back. The fleet may grow, and does not shrink for some minutes.",
};
const MISSED = 3;  // intervals without a run, after which runs do not happen
const GRACE = 60;  // seconds that a run may take until its decision is recorded

const total = (seen, name) => seen.pools.reduce((sum, pool) => sum + pool[name], 0);

// What the person's own credentials do not reach. The autoscaler may well reach it: its level is that of its last run.
const UNREAD = {
  EC2: ["bad", "EC2 cannot be read from here.", "Nodes and their cost are not known."],
  Kubernetes: ["bad", "Kubernetes cannot be read from here.", "Phases of nodes and pending pods are not known."],
  Prometheus: ["warn", "Metrics cannot be read from here.", "CPU and memory are not known."],
};

// Each gives a verdict, or nothing if it does not apply. The worst come first.
const CASES = [
  (seen) => !seen.last && bad("warn", "No run is recorded yet.", "The first one restores min. `nodefleet doctor` says what it still needs."),
  (seen) => seen.at - seen.last.at > MISSED * seen.policy.interval + GRACE && bad("bad", `No run for ${span(seen.at - seen.last.at)}.`, "Nothing is scaled. See that the schedule is on: `nodefleet doctor`."),
  (seen) => alarmed(seen, "critical", "bad"),
  (seen) => LEVELS[seen.level] && bad(seen.level === "degraded" || seen.level === "recovery" ? "warn" : "bad", `${seen.level[0].toUpperCase()}${seen.level.slice(1)}.`, LEVELS[seen.level]),
  (seen) => unread(seen, "EC2") ?? unread(seen, "Kubernetes"),
  (seen) => alarmed(seen, "warning", "warn"),
  (seen) => held(seen.commands.filter((each) => each.kind === "pause")),
  (seen) => seen.pools.length && seen.pools.every((pool) => pool.dry_run) && bad("warn", "Dry run.", "Decisions are recorded and explained; nothing is changed."),
  (seen) => waiting(seen),
  (seen) => unread(seen, "Prometheus"),
  (seen) => changing(seen),
  (seen) => ({ tone: "good", title: "All is well.", more: `${plural(total(seen, "ready"), "node")} ready, every pod has a node.` }),
];

export function verdict(seen, error) {
  if (error) return bad("bad", "The state table cannot be read from here.", `All of this is of ${clock(seen.at, true)}.`);
  for (const each of CASES) {
    const found = each(seen);
    if (found) return found;
  }
  return null;
}

const bad = (tone, title, more) => ({ tone, title, more });

function alarmed(seen, severity, tone) {
  const active = seen.alarms.filter((each) => each.active && each.severity === severity);
  if (!active.length) return null;
  const more = active.length > 1 ? ` And ${plural(active.length - 1, "more alarm")} below.` : "";
  return bad(tone, `${active[0].headline}.`, `${active[0].text}${more}`);
}

function unread(seen, part) {
  if (!seen.problems.some((each) => each.part === part)) return null;
  return bad(...UNREAD[part].slice(0, 2), `${UNREAD[part][2]} The last run was ${seen.level}, at ${clock(seen.last.at)}.`);
}

function held(pauses) {
  if (!pauses.length) return null;
  const [first] = pauses;
  return bad("warn", `Paused: ${first.subject}.`, `By ${first.by}${first.reason ? `, ${first.reason}` : ""}, ${first.until ? `until ${clock(first.until)}` : "until resumed"}.`);
}

function waiting(seen) {
  const count = seen.pending.count;
  if (!count) return null;
  const booting = total(seen, "capacity") - total(seen, "ready");
  return bad("warn", `${plural(count, "pod waits", "pods wait")} for a node.`, booting ? `${plural(booting, "node is", "nodes are")} booting.` : "The list below says what the scheduler says of each.");
}

function changing(seen) {
  const leaving = seen.operations.filter((each) => each.kind === "removal");
  const booting = total(seen, "capacity") - total(seen, "ready");
  if (booting) return { tone: "busy", title: "Growing.", more: `${plural(total(seen, "ready"), "node")} ready, ${booting} booting; every pod has a node.` };
  const blocked = leaving.flatMap((each) => each.left ?? []).find((pod) => pod.budget);
  if (blocked) return { tone: "busy", title: "A drain waits.", more: `${blocked.pod} is held by PodDisruptionBudget ${blocked.budget}.` };
  if (leaving.length) return { tone: "busy", title: "Shrinking.", more: `${leaving.map((each) => each.subject).slice(0, 3).join(", ")} ${leaving.length > 1 ? "are" : "is"} drained; every pod has a node.` };
  return null;
}
