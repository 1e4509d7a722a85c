// Money: what the fleet costs, what fixed fleets would have cost, and where the difference comes from.
import { get } from "./api.js";
import { node, plot, axis } from "./charts.js";
import { card, el, fill, segmented } from "./dom.js";
import { clock, day, percent, plural, usd } from "./format.js";

export function moneyPage() {
  let found = null, chosen = "today", read = 0;
  const state = el("p", { class: "note", role: "status" }, "Reading …");
  const body = el("div", { class: "money" });
  const chart = el("div", { class: "chart", id: "chart-money" });
  const hourly = card("Node-hours by market", el("p", { class: "legend" }, el("span", {}, el("i", { class: "on-demand" }), "On-Demand"), el("span", {}, el("i", { class: "spot" }), "Spot")), chart);
  const root = el("div", {}, card("Cost", segmented("Period", [["today", "Today"], ["week", "7 days"], ["month", "30 days"]], chosen, (value) => { chosen = value; show(); }), state, body), hourly);

  async function load() {
    read = Date.now();
    try {
      found = await get("money");
      state.textContent = "";
      show();
    } catch (error) {
      state.textContent = error.message;
    }
  }

  function show() {
    if (!found) return;
    const period = found.periods[chosen];
    fill(body, period.node_hours ? [headline(period), bars(period), facts(period)] : el("p", { class: "empty" }, "No hour of this period is recorded yet."));
    drawHours();
  }

  function drawHours() {
    const hours = found.hours.filter(([at]) => at >= found.periods[chosen].start);
    hourly.hidden = !hours.length;
    draw(chart, hours);
  }

  new ResizeObserver(() => found && drawHours()).observe(chart);  // a phone that is turned, a window that is dragged
  load();
  return { root, update() { if (Date.now() - read > 15000) load(); } };
}

function headline(period) {
  if (period.saved_usd === null) return el("p", { class: "headline" }, `${usd(period.usd)} for the workers.`);
  const less = period.saved_usd >= 0;
  const share = period.fixed_usd ? 100 * period.saved_usd / period.fixed_usd : 0;
  return el("p", { class: "headline" }, el("strong", { class: less ? "good" : "bad" }, `${usd(Math.abs(period.saved_usd))} ${less ? "saved" : "more"}`),
    ` (${percent(Math.abs(share))}) against ${plural(period.nodes, "fixed On-Demand node")}${period.own_usd === null ? "" : ", the autoscaler's own cost included"}.`);
}

function bars(period) {
  const all = [["This fleet", period.usd, "fleet", "workers"], ["Autoscaler itself", period.own_usd, "own", "functions, table, alarms, metrics"],
    ["Fixed On-Demand fleet", period.fixed_usd, "fixed", `${plural(period.nodes, "node")}, as many as the busiest moment`],
    ["Fixed Spot fleet", period.fixed_spot_usd, "fixed-spot", "as many, at today's Spot price, and EC2 may take all of them"]];
  const most = Math.max(...all.map(([, value]) => value ?? 0), 0.0001);
  return el("ul", { class: "bars" }, all.map(([title, value, name, note]) => {
    const bar = el("span", { class: `bar ${name}` });
    bar.style.width = `${Math.max(0.5, 100 * (value ?? 0) / most)}%`;
    return el("li", {}, el("span", { class: "bar-title" }, title, " ", el("span", { class: "note" }, note)), el("span", { class: "bar-row" }, bar, el("b", {}, value === null ? "not known" : usd(value))));
  }));
}

function facts(period) {
  const rows = [
    ["Saved by fewer node-hours", usd(period.by_fewer_nodes)], ["Saved by Spot and cheaper types", usd(period.by_spot)],
    ["Node-hours", period.node_hours.toFixed(1)], ["Spot share", percent(period.spot_percent)], ["Spot interruptions", period.interruptions],
    ["Nodes added and removed", `${period.scale_ups} and ${period.scale_downs}`], ["Pod-hours spent waiting for a node", period.pending_pod_hours.toFixed(2)], ["Hours watched", period.watched_hours.toFixed(1)],
  ];
  if (period.unpriced_percent) rows.push(["Node-hours without a known price", percent(period.unpriced_percent)]);
  return el("dl", { class: "details wide" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function draw(holder, hours) {
  if (!hours.length || !holder.clientWidth) { requestAnimationFrame(() => hours.length && holder.isConnected && holder.clientWidth && draw(holder, hours)); return; }
  const range = [hours[0][0], hours[hours.length - 1][0] + 3600];
  const made = plot(holder, { height: 180, range, start: 0, ...axis(Math.max(...hours.map(([, , spot, other]) => spot + other)), true) });
  const width = Math.max(1, made.x(3600) - made.x(0) - 1.5);
  for (const [at, cost, spot, other] of hours) {
    const bottom = made.y(other);
    const bar = (name, y, height) => node("rect", { class: `bar-${name}`, x: made.x(at) + 0.75, y, width, height: Math.max(0, height) }, made.layer);
    node("title", {}, bar("on-demand", bottom, made.bottom - bottom), `${day(at)} ${clock(at)}: ${usd(cost)}, ${other.toFixed(1)} On-Demand node-hours`);
    node("title", {}, bar("spot", made.y(other + spot), bottom - made.y(other + spot)), `${day(at)} ${clock(at)}: ${usd(cost)}, ${spot.toFixed(1)} Spot node-hours`);
  }
  made.svg.setAttribute("aria-label", `Node-hours of each hour, ${plural(hours.length, "hour")}`);
}
