// All clusters of a deployment: a row each, the troubled first, and a way to the page of one of them.
import { about, post, updates } from "./api.js";
import { card, el, fill, keyed, text, toast } from "./dom.js";
import { clock, day, plural, span, usd } from "./format.js";

const LEVELS = { late: "partial", unreadable: "partial", paused: "recovery", new: "" };
const COLUMNS = ["Cluster", "Region", "Health", "Nodes", "Pending pods", "Last run", "Cost today"];
const chosen = { words: "", troubled: false };
let newest = null;
let shown = null;

async function open(name) {
  try {
    const { message } = await post("commands", { kind: "open", cluster: name });
    location.assign(message);
  } catch (error) {
    toast(error.message, "error");
  }
}

function make(row) {
  const button = el("button", { type: "button", class: "link", onclick: () => open(row.name) }, row.name);
  return el("tr", {}, el("th", { scope: "row" }, button), el("td"), el("td", {}, el("span", { class: "pill" })),
    el("td"), el("td"), el("td"), el("td"));
}

function update(line, row) {
  const [, region, health, nodes, pending, ran, cost] = line.children;
  const pill = health.firstElementChild;
  text(region, row.region || "–");
  text(pill, row.state);
  pill.dataset.level = LEVELS[row.state] ?? row.state;
  pill.title = row.problem;
  text(nodes, row.nodes === null ? "–" : row.nodes === row.target ? row.nodes : `${row.nodes} → ${row.target}`);
  text(pending, row.pending ?? "–");
  text(ran, row.age === null ? (row.problem ? "–" : "never") : `${span(row.age)} ago`);
  text(cost, usd(row.usd));
}

function page() {
  const summary = el("p", { class: "sentence", role: "status" });
  const search = el("input", { type: "search", "aria-label": "Search", placeholder: "Name or region",
    oninput: (event) => { chosen.words = event.target.value.toLowerCase(); draw(); } });
  const troubled = el("input", { type: "checkbox", onchange: (event) => { chosen.troubled = event.target.checked; draw(); } });
  const body = el("tbody");
  const empty = el("p", { class: "empty", hidden: true });
  const table = el("table", {}, el("thead", {}, el("tr", {}, COLUMNS.map((name) => el("th", { scope: "col" }, name)))), body);
  const note = el("p", { class: "note" }, "Cost is today's (UTC), up to the last full hour, with the autoscaler's own.");
  const root = card("Clusters", summary, el("div", { class: "filters" }, search, el("label", {}, troubled, " in trouble only")),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of clusters" }, table), empty, note);
  return { root, summary, body, empty };
}

function draw() {
  if (!newest) return;
  if (!shown) fill(document.getElementById("view"), el("h1", { class: "visually-hidden" }, "All clusters"), (shown = page()).root);
  const rows = newest.clusters;
  const sum = (key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);
  const bad = rows.filter((row) => row.troubled).length;
  text(shown.summary, `${plural(rows.length, "cluster")}, ${plural(sum("nodes"), "node")}, ${plural(sum("pending"), "pending pod")},`
    + ` ${usd(sum("usd"), 2)} today. ${bad ? `${bad} in trouble.` : "All are well."}`);
  const wanted = rows.filter((row) => (!chosen.troubled || row.troubled)
    && `${row.name} ${row.region}`.toLowerCase().includes(chosen.words));
  keyed(shown.body, wanted, (row) => row.name, make, update);
  shown.empty.hidden = wanted.length > 0;
  text(shown.empty, rows.length ? "No cluster fits." : "No cluster is registered: nodefleet clusters add CLUSTER adds one.");
}

function receive(found) {
  const banner = document.getElementById("banner");
  banner.hidden = !found.error;
  text(banner, found.error ? `The registry cannot be read: ${found.error} What is shown may be old.` : "");
  document.body.classList.toggle("stale", Boolean(found.error));
  if (found.error) return;
  newest = found;
  text(document.getElementById("clock"), `${day(found.at)} ${clock(found.at, true)} UTC`);
  draw();
}

await about();
updates(receive, () => document.body.classList.add("lost"));
