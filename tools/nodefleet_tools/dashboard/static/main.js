// Start: pages by the address's hash, one store that the stream of updates fills.
import { about, get, post, updates } from "./api.js";
import { el, fill, segmented, text, toast } from "./dom.js";
import { clock, day } from "./format.js";
import { historyPage } from "./history.js";
import { moneyPage } from "./money.js";
import { nowPage } from "./now.js";
import { steerPage } from "./steer.js";

const PAGES = { now: nowPage, history: historyPage, money: moneyPage, steer: steerPage };
const ORDER = ["t", "load", "ready", "booting", "target", "cpu", "memory", "pending", "usd"];
const store = { about: null, update: null, timeline: null };
let page = null;

function show() {
  const name = location.hash.slice(1).split("/")[0];
  const wanted = name in PAGES ? name : "now";
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.hash === `#${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${wanted[0].toUpperCase()}${wanted.slice(1)} · ${store.about?.cluster ?? ""} · node-fleet`;
  const view = document.getElementById("view");
  if (!store.update?.snapshot) {  // empty cards would say that there is nothing
    fill(view, el("p", { class: "loading", role: "status" }, el("span", {}, `Reading ${store.about.cluster} …`)));
    return;
  }
  page = PAGES[wanted](store);
  fill(view, page.root);
  page.update(store.update);
}

function prepare({ what, done }) {
  const shown = document.querySelector("#view .loading");
  if (!shown) return;
  text(shown.firstElementChild, `Playing ${what} …`);
  if (!shown.querySelector("progress")) shown.append(el("progress", { max: "1", "aria-label": "Progress" }));
  shown.querySelector("progress").value = done;
}

function head(update) {
  const seen = update.snapshot;
  if (seen) {
    text(document.getElementById("clock"), `${day(seen.at)} ${clock(seen.at, true)} UTC`);
    const level = document.getElementById("level");
    text(level, seen.level);
    level.dataset.level = seen.level;
    level.title = "The level of the last run";
  }
  problems(update);
  demo(update.demo, update.preparing);
}

function problems(update) {
  const banner = document.getElementById("banner");
  const seen = update.snapshot;
  const found = seen?.problems ?? [];
  const said = update.error ? [`The state table cannot be read: ${sentence(update.error)}${seen ? ` What is shown is of ${clock(seen.at, true)}.` : ""}`]
    : found.map((each) => sentence(`${each.part}: ${each.cause}`));
  if (seen?.policy.hold) said.push("The fleet is held until the policy can be followed.");
  const metrics = !update.error && found.length > 0 && found.every((each) => each.part === "Prometheus");
  if (metrics) said.push("Without metrics the fleet may grow, and does not shrink.");
  banner.classList.toggle("warn", metrics);
  banner.hidden = said.length === 0;
  text(banner, said.join(" "));
  document.body.classList.toggle("stale", Boolean(update.error));
}

const sentence = (words) => (/[.!?]$/.test(words) ? words : `${words}.`);

function demo(about, preparing) {
  const bar = document.getElementById("demo");
  bar.hidden = !about;
  if (!about) return;
  const key = `${about.done}/${Boolean(preparing)}`;
  if (bar.dataset.key !== key) {
    bar.dataset.key = key;
    const speeds = about.speeds.map((speed) => [speed, speed ? `${speed}×` : "Pause"]);
    fill(bar, el("strong", {}, "Simulated cluster"), el("span", { class: "about", title: about.about }, preparing ? "" : about.about),
      about.done ? el("span", {}, "The day is over.")
        : [segmented("Speed of the simulation", speeds, about.speed, (speed) => command({ kind: "speed", speed })),
          el("button", { type: "button", class: "ghost", onclick: () => command({ kind: "skip", minutes: 30 }) }, "+30 min")]);
  }
  for (const choice of bar.querySelectorAll("input")) choice.checked = Number(choice.value) === about.speed;
  if (preparing) text(bar.querySelector(".about"), `Playing ${preparing.what} … ${Math.round(100 * preparing.done)} %`);
}

async function command(content) {
  try {
    await post("commands", content);
  } catch (error) {
    toast(error.message, "error");
  }
}

function receive(update) {
  document.body.classList.remove("lost");
  if (update.snapshot && store.timeline) remember(update.point);
  store.update = update.snapshot ? update : { ...store.update, ...update, error: update.error };
  if (!page && update.snapshot) show();
  if (!page && update.preparing) prepare(update.preparing);
  if (!page && update.error) text(document.querySelector("#view .loading"), "Nothing could be read yet. Trying again …");
  head(update.snapshot || update.preparing ? update : store.update);
  if (update.snapshot && !document.hidden) {
    performance.mark("update-begins");
    if (!store.timeline || store.gap) load(); else page?.update(update);
    performance.measure("update", "update-begins");
  }
}

async function load() {
  store.gap = false;
  store.timeline ??= Object.fromEntries(ORDER.map((name) => [name, []]));
  try {
    store.timeline = await get("timeline");
  } catch (error) {
    toast(error.message, "error");
  }
  if (page && store.update?.snapshot) page.update(store.update);
}

function remember(point) {
  const columns = store.timeline;
  const last = columns.t[columns.t.length - 1];
  store.gap = last !== undefined && point[0] - last > 180;  // the server has what was recorded meanwhile
  while (columns.t.length && columns.t[columns.t.length - 1] >= point[0]) for (const name of ORDER) columns[name].pop();
  ORDER.forEach((name, index) => columns[name].push(point[index]));
  if (columns.t.length > 4000) for (const name of ORDER) columns[name].splice(0, 500);
}

function lost() {
  const banner = document.getElementById("banner");
  document.body.classList.add("stale");
  banner.hidden = false;
  text(banner, "The connection to the dashboard's server is lost. Is `nodefleet dashboard` still running? Trying again …");
}

async function start() {
  try {
    store.about = await about();
  } catch (error) {
    fill(document.getElementById("view"), el("p", { class: "loading" }, error.message));
    return;
  }
  text(document.getElementById("cluster"), store.about.cluster);
  window.addEventListener("hashchange", show);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && store.update?.snapshot) page?.update(store.update);
  });
  show();
  updates(receive, lost);
}

start();
