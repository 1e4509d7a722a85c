// Now: is everything well, what is the fleet doing, and why.
import { Chart, axis, band, dashed, filled, limits, line, plot, thinned } from "./charts.js";
import { card, el, fill, keyed, segmented, text } from "./dom.js";
import { bytes, clock, percent, plural, span, usd } from "./format.js";
import { fleet } from "./nodes.js";
import { verdict } from "./verdict.js";

const HOUR = 3600;
const MONTH = 730;
const SHORTEST = 1200;  // seconds that a chart shows at least, however little is recorded
let hours = 6;

export function nowPage(store) {
  const figures = figuresOf();
  const charts = chartsOf(store);
  const pools = poolsOf();
  const nodes = fleet(store);
  const lists = listsOf();
  const root = el("div", { class: "now" }, figures.root, charts.root, pools.root, nodes.root, lists.root);
  return {
    root,
    update(update) {
      figures.update(update.snapshot, update.error);
      charts.update(update);
      pools.update(update.snapshot);
      nodes.update(update.snapshot);
      lists.update(update);
    },
  };
}

// ── the figures at the top ───────────────────────────────────────────────────────────────────────────────────────────

function figure(label) {
  const value = el("strong", {}), note = el("span", { class: "note" });
  const root = el("div", { class: "figure" }, el("span", { class: "label" }, label), value, note);
  return { root, set(main, small, tone = "") { text(value, main); text(note, small); root.dataset.tone = tone; } };
}

function waited({ at, pending }) {
  if (pending.count === null) return "not known";
  if (!pending.count) return "every pod has a node";
  return pending.pods.length ? `longest ${span(at - pending.pods[0].since)}` : "names not known";
}

function figuresOf() {
  const nodes = figure("Nodes"), cpu = figure("CPU"), memory = figure("Memory"), pending = figure("Pending pods"), cost = figure("Cost");
  const title = el("strong", {}), more = el("span", {}), state = el("p", { class: "verdict", role: "status" }, el("i", { "aria-hidden": "true" }), title, " ", more);
  const why = el("p", { class: "sentence" }), when = el("span", { class: "note" });
  const decision = el("a", { class: "decision", href: "#history" }, el("span", { class: "label" }, "Last decision"), why, when);
  const root = el("section", { class: "figures", "aria-label": "Overview" }, state, nodes.root, pending.root, cpu.root, memory.root, cost.root, decision);
  return {
    root,
    update(seen, error) {
      const said = verdict(seen, error);
      state.dataset.tone = said.tone;
      text(title, said.title);
      text(more, said.more);
      const sum = (name) => seen.pools.reduce((total, pool) => total + pool[name], 0);
      const known = seen.pools.every((pool) => pool.ready !== null), booting = sum("capacity") - sum("ready");
      nodes.set(known ? sum("ready") : "–", `${known ? (booting ? `${booting} booting, ` : "") : "not known, "}target ${sum("target")} of ${sum("min")}–${sum("max")}`, known && sum("capacity") >= sum("max") ? "warn" : "");
      pending.set(seen.pending.count ?? "–", waited(seen), seen.pending.count ? "warn" : "");
      for (const [shown, name] of [[cpu, "cpu"], [memory, "memory"]]) {
        const read = seen.pools.filter((pool) => pool[name].value !== null);
        const weight = read.reduce((total, pool) => total + (pool.ready ?? 1), 0);
        const mean = weight ? read.reduce((total, pool) => total + pool[name].value * (pool.ready ?? 1), 0) / weight : null;
        const first = seen.pools[0]?.[name];
        shown.set(percent(mean), first ? (mean === null ? first.missing || "no reading" : seen.pools.length > 1 ? "mean of the pools" : `grows above ${first.up} %`) : "", mean !== null && first && mean > first.up ? "warn" : "");
      }
      const hourly = seen.cost.hourly_usd;
      if (hourly === null) cost.set("–", "not known");
      else cost.set(`${usd(hourly, hourly ? undefined : 2)}/h`, `${usd(hourly * MONTH, 0)} a month${seen.cost.spot_percent === null ? "" : `, ${percent(seen.cost.spot_percent)} Spot`}`);
      const last = seen.last;
      text(why, last ? last.pools.map((pool) => pool.reason).join(" · ") : "No decision is recorded yet.");
      text(when, last ? `${clock(last.at, true)}${last.requeue ? ` · next iteration soon: ${last.requeue}` : ""}` : "");
      decision.dataset.action = last?.pools.find((pool) => pool.action !== "hold")?.action ?? "hold";
      if (last) decision.href = `#history/${last.id}`;
    },
  };
}

// ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const figured = (value, digits = 1) => (value === null || value === undefined ? "–" : value.toFixed(digits));

function chartsOf(store) {
  const load = new Chart("Load, capacity and forecast in nodes", 316, drawLoad, (data, i) => [
    ["load", figured(data.load[i], 2)], ["ready", data.ready[i] ?? "–"], ["booting", data.booting[i] ?? "–"], ["target", data.target[i]]]);
  const use = new Chart("CPU and memory utilisation in percent", 150, drawUse, (data, i) => [
    ["CPU", percent(data.cpu[i], 1)], ["memory", percent(data.memory[i], 1)]]);
  const pods = new Chart("Pending pods", 100, drawPending, (data, i) => [["pending", data.pending[i] ?? "–"]]);
  const choice = segmented("Time shown", [[1, "1 h"], [6, "6 h"], [24, "24 h"]], hours, (value) => { hours = value; update(store.update); });
  const first = card("Load and capacity", legend([["load", "load (busy nodes)"], ["ready", "ready"], ["booting", "booting"], ["forecast", "forecast"]]), load.holder);
  const grade = el("p", { class: "note" });
  first.append(grade);
  first.querySelector("h2").after(choice);
  const root = el("div", { class: "charts" }, first,
    card("Utilisation", legend([["cpu", "CPU"], ["memory", "memory"], ["limit", "threshold"]]), use.holder),
    card("Pending pods", pods.holder));
  function update(update) {
    if (!store.timeline || !update?.snapshot) return;
    const end = update.snapshot.at;
    const ahead = update.forecast.length ? Math.min(hours, 3) * HOUR * 0.5 : 0;
    const oldest = store.timeline.t[0] ?? end;  // a young cluster fills its charts, too
    const range = [Math.max(end - hours * HOUR, Math.min(oldest, end - SHORTEST)), end + ahead];
    const data = thinned(store.timeline, range, ["pending", "load", "cpu", "memory"]);
    const common = { ...data, range, forecast: update.forecast, pools: update.snapshot.pools };
    load.update(common);
    text(grade, gradeOf(update.snapshot.pools));
    use.update({ ...common, range: [range[0], end] });
    pods.update({ ...common, range: [range[0], end] });
  }
  return { root, update };
}

// What the forecast is worth by its own grades. The promises are those of about two days.
function gradeOf(pools) {
  return pools.filter((pool) => pool.forecast).map(({ name, forecast: { skill, promised, seen } }) =>
    `Forecast${pools.length > 1 ? ` of ${name}` : ""}: ${skill > 0 ? `errs ${percent(skill)} less than the last value` : "no better than the last value"}; ${promised} violations promised, ${seen} seen.`).join(" ");
}

function legend(entries) {
  return el("p", { class: "legend" }, entries.map(([name, title]) => el("span", {}, el("i", { class: name }), title)));
}

const most = (...columns) => Math.max(0, ...columns.map((values) => values.reduce((found, value) => Math.max(found, value ?? 0), 0)));

function drawLoad(holder, height, data) {
  const total = data.ready.map((value, i) => (value === null ? null : value + data.booting[i]));
  // The forecast continues from the present load: a band that begins in the air says nothing.
  const now = data.t.length - 1;
  const coming = data.forecast.filter(([t]) => t > data.t[now] && t <= data.range[1] + HOUR);
  const shown = coming.length && data.load[now] !== null ? [[data.t[now], data.load[now], data.load[now], data.load[now]], ...coming] : coming;
  const scale = axis(Math.max(most(total, data.target, data.load), ...shown.map(([, , , high]) => high)), true);
  const limit = data.pools.reduce((sum, pool) => sum + pool.max, 0), bounded = limit <= scale.most;
  const chart = plot(holder, { height, range: data.range, start: 0, labels: bounded, ...scale });
  filled(chart, data.t, total, data.ready, data.range, "booting");
  filled(chart, data.t, data.ready, null, data.range, "ready");
  line(chart, data.t, data.ready, data.range, "ready", true);
  band(chart, shown, "forecast");
  line(chart, data.t, data.load, data.range, "load");
  if (bounded) dashed(chart, limit, "var(--soft)", `max ${limit}`);
  return chart;
}

function drawUse(holder, height, data) {
  const chart = plot(holder, { height, range: data.range, start: 0, most: 100, ticks: [0, 25, 50, 75, 100] });
  const pool = data.pools[0];
  if (pool) {
    limits(chart, [[pool.cpu.up, "var(--cpu)"], [pool.cpu.down, "var(--cpu)"], [pool.memory.up, "var(--memory)"], [pool.memory.down, "var(--memory)"]]);
  }
  line(chart, data.t, data.memory, data.range, "memory");
  line(chart, data.t, data.cpu, data.range, "cpu");
  return chart;
}

function drawPending(holder, height, data) {
  const scale = axis(Math.max(4, most(data.pending)), true);
  const chart = plot(holder, { height, range: data.range, start: 0, labels: false, ...scale });
  filled(chart, data.t, data.pending, null, data.range, "pending");
  line(chart, data.t, data.pending, data.range, "pending", true);
  return chart;
}

// ── pools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const POOL_COLUMNS = ["Pool", "Nodes", "Min–max", "CPU", "Memory", "Readings", "Last decision"];

// One row for each pool. A single pool without readings of its own has all of this at the top already.
function poolsOf() {
  const rows = el("tbody");
  const root = card("Pools", el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Pools" },
    el("table", {}, el("thead", {}, el("tr", {}, POOL_COLUMNS.map((title) => el("th", { scope: "col" }, title)))), rows)));
  const share = (reading) => (reading.value === null ? "–" : `${percent(reading.value)} of ${reading.up} %`);
  return {
    root,
    update(seen) {
      root.hidden = seen.pools.length < 2 && !seen.pools.some((pool) => pool.custom.length);
      if (root.hidden) return;
      const decided = new Map((seen.last?.pools ?? []).map((pool) => [pool.pool, pool]));
      keyed(rows, seen.pools, (pool) => pool.name, (pool) => el("tr", {}, el("th", { scope: "row" }, pool.name), POOL_COLUMNS.slice(1).map(() => el("td"))), (row, pool) => {
        const booting = pool.capacity - pool.ready;
        const values = [pool.ready === null ? "–" : `${pool.ready}${booting ? ` + ${booting} booting` : ""}${pool.target === pool.capacity ? "" : `, target ${pool.target}`}${pool.dry_run ? ", dry run" : ""}`,
          `${pool.min}–${pool.max}`, share(pool.cpu), share(pool.memory),
          pool.custom.map((each) => `${each.name} ${each.value === null ? "missing" : each.value}`).join(", ") || "–", decided.get(pool.name)?.reason ?? "–"];
        values.forEach((value, index) => text(row.children[index + 1], value));
      });
    },
  };
}

// ── what is under way, what waits, what is wrong ─────────────────────────────────────────────────────────────────────

function listsOf() {
  const operations = el("ul", { class: "list" }), pending = el("ul", { class: "list" }), alarms = el("ul", { class: "list" });
  const errors = el("ul", { class: "list" }), activity = el("ol", { class: "list feed" });
  const more = card("Capacity errors and retries", errors);
  const waiting = card("Pending pods", pending);
  const root = el("div", { class: "lists" }, card("Under way", operations), waiting, card("Alarms", alarms), more, card("Activity", activity));
  return {
    root,
    update({ snapshot: seen, activity: told }) {
      listOperations(operations, seen);
      listPending(pending, seen);
      listAlarms(alarms, seen);
      listErrors(errors, seen);
      waiting.hidden = !seen.pending.count;
      more.hidden = !seen.capacity_errors.length && !seen.setbacks.length;
      listActivity(activity, told);
    },
  };
}

function empty(list, items, sentence) {
  if (items.length) list.querySelector(".empty")?.remove();
  else if (!list.querySelector(".empty")) { list.keyed?.clear(); fill(list, el("li", { class: "empty" }, sentence)); }
  return items.length > 0;
}

function listOperations(list, seen) {
  const shown = seen.operations.slice(0, 40);
  if (!empty(list, shown, "Nothing is under way.")) return;
  keyed(list, shown, (each) => each.id, () => el("li", { class: "operation" }), (item, each) => {
    const key = JSON.stringify([each.step, each.left, each.total, each.done, Math.round(seen.at / 10)]);
    if (item.dataset.key === key) return;
    item.dataset.key = key;
    const share = (seen.at - each.started) / Math.max(1, each.deadline - each.started);
    const blocked = (each.left ?? []).filter((pod) => pod.budget);
    fill(item, el("div", { class: "row" }, el("span", { class: `pill ${each.kind}` }, each.kind), el("strong", {}, each.subject), el("span", { class: "note" }, each.step)),
      el("progress", { max: "1", value: String(Math.min(1, Math.max(0, share))), "aria-label": `Time used of ${each.subject}` }),
      el("p", { class: "note" }, each.kind === "launch" ? `${each.done} of ${each.total} joined · ` : each.total === null || each.total === undefined ? "" : `${plural(each.total, "pod")} left · `,
        `${span(seen.at - each.started)} so far, until ${clock(each.deadline, true)}`),
      blocked.length ? el("p", { class: "blocked" }, "Waits for a PodDisruptionBudget: ", blocked.slice(0, 3).map((pod, i) => [i ? ", " : "", el("b", {}, pod.pod), ` (${pod.budget})`])) : null,
      el("p", { class: "note" }, each.reason));
  });
}

function listPending(list, seen) {
  const pods = seen.pending.pods.slice(0, 12);
  if (!empty(list, pods, "Every pod has a node.")) return;
  keyed(list, pods, (pod) => pod.name, (pod) => el("li", {}, el("strong", {}, pod.name), " ", el("span", { class: "note" }), el("p", { class: "note message" }, pod.message)), (item, pod) =>
    text(item.querySelector(".note"), `${span(seen.at - pod.since)} · ${pod.cpu} m CPU, ${bytes(pod.memory)}`));
}

function listAlarms(list, seen) {
  if (!empty(list, seen.alarms, "No alarm in the last day.")) return;
  keyed(list, seen.alarms, (each) => `${each.at}/${each.kind}/${each.pool}/${each.active}`, (each) =>
    el("li", { class: `alarm ${each.severity} ${each.active ? "active" : ""}` },
      el("div", { class: "row" }, el("span", { class: `pill ${each.active ? each.severity : ""}` }, each.active ? each.severity : "over"), el("strong", {}, each.headline), el("span", { class: "note" }, clock(each.at))),
      el("p", {}, each.text), each.active ? el("p", { class: "note" }, each.todo) : null), () => {});
}

function listErrors(list, seen) {
  const items = [...seen.capacity_errors.map((each) => ({ what: `no ${each.type} as ${each.market} in ${each.zone}`, until: each.until })), ...seen.setbacks];
  if (!empty(list, items, "EC2 gave everything that was asked for.")) return;
  keyed(list, items, (each) => each.what, (each) => el("li", {}, el("strong", {}, each.what), " ", el("span", { class: "note" })), (item, each) =>
    text(item.querySelector(".note"), `tried again in ${span(each.until - seen.at)}`));
}

function listActivity(list, told) {
  if (!empty(list, told, "Nothing happened yet.")) return;
  keyed(list, told.slice(0, 25), (each) => `${each.at}/${each.kind}/${each.text}`, (each) =>
    el("li", { class: each.severity }, el("time", {}, clock(each.at)), el("span", {}, each.headline ? el("b", {}, `${each.headline}. `) : null, each.text)), () => {});
}
