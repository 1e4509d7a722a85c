// The fleet: a tile for each node, grouped by zone; one of them in detail; all of them as a table.
import { post } from "./api.js";
import { card, el, fill, keyed, openDrawer, text, toast, twice } from "./dom.js";
import { MARKETS, percent, plural, span, usd } from "./format.js";

const ROWS = 50;
const PHASES = ["ready", "booting", "requested", "unready", "cordoned", "draining", "drained", "interrupted", "terminating", "join-failed", "unhealthy", "stopped", "warm", "unlisted", "orphaned", "unknown"];

export function fleet(store) {
  const state = { pool: "", market: "", phase: "", text: "", sort: "name", shown: ROWS, open: null };
  const map = el("div", { class: "map" }), counts = el("p", { class: "legend phases" });
  const rows = el("tbody"), foot = el("p", { class: "note" });
  const more = el("button", { type: "button", class: "ghost", hidden: true, onclick: () => { state.shown += 4 * ROWS; again(); } }, "Show more");
  const select = (label, name) => el("label", {}, el("span", { class: "visually-hidden" }, label), el("select", { onchange: (event) => { state[name] = event.target.value; again(); } }, el("option", { value: "" }, label)));
  const pools = select("All pools", "pool"), markets = select("All markets", "market"), phases = select("All phases", "phase");
  const search = el("input", { type: "search", placeholder: "Find a node, type or reason", "aria-label": "Find a node", oninput: (event) => { state.text = event.target.value.toLowerCase(); again(); } });
  const table = el("details", { class: "table" }, el("summary", {}, "All nodes as a table"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" }, el("table", {}, el("thead", {}, el("tr", {}, COLUMNS.map(([name, title]) =>
      el("th", { scope: "col" }, el("button", { type: "button", onclick: () => { state.sort = name; again(); } }, title))))), rows)), foot, more);
  table.addEventListener("toggle", () => again());
  const root = card("Fleet", el("div", { class: "filters" }, pools, markets, phases, search), counts, map, table);
  root.classList.add("fleet");
  map.addEventListener("click", (event) => { const tile = event.target.closest(".tile"); if (tile) open(tile.dataset.id); });
  map.addEventListener("keydown", roam);

  const again = () => store.update?.snapshot && update(store.update.snapshot);

  function update(seen) {
    options(pools.querySelector("select"), seen.pools.map((pool) => [pool.name, pool.name]));
    options(markets.querySelector("select"), [["spot", "Spot"], ["on-demand", "On-Demand"]]);
    options(phases.querySelector("select"), PHASES.filter((phase) => seen.nodes.some((node) => node.phase === phase)).map((phase) => [phase, phase]));
    const found = seen.nodes.filter((node) => (!state.pool || node.pool === state.pool) && (!state.market || node.market === state.market)
      && (!state.phase || node.phase === state.phase) && (!state.text || `${node.name} ${node.id} ${node.type} ${node.why}`.toLowerCase().includes(state.text)));
    countPhases(counts, found);
    drawMap(map, found, seen);
    if (table.open) drawTable(rows, foot, found, seen.at, state);
    more.hidden = found.length <= state.shown;
    if (state.open && document.getElementById("drawer").open) refresh(seen);
  }

  function open(id) {
    const node = store.update.snapshot.nodes.find((each) => each.id === id);
    if (!node) return;
    state.open = id;
    const body = el("div");
    openDrawer(node.name, body);
    state.body = body;
    fill(body, details(node, store.update.snapshot), actions(node, store.update.snapshot));
  }

  function refresh(seen) {
    const node = seen.nodes.find((each) => each.id === state.open);
    const shown = state.body?.querySelector("dl");
    if (shown && node) shown.replaceWith(details(node, seen));
  }

  rows.addEventListener("click", (event) => { const row = event.target.closest("button[data-id]"); if (row) open(row.dataset.id); });
  return { root, update };
}

function options(select, wanted) {
  const key = JSON.stringify(wanted);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  const chosen = select.value;
  select.replaceChildren(select.firstElementChild, ...wanted.map(([value, title]) => el("option", { value }, title)));
  select.value = chosen;
}

function countPhases(list, nodes) {
  const counts = new Map();
  for (const node of nodes) counts.set(node.phase, (counts.get(node.phase) ?? 0) + 1);
  const key = JSON.stringify([...counts]);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  fill(list, PHASES.filter((phase) => counts.has(phase)).map((phase) => el("span", {}, el("i", { class: "tile-sign", data: { phase } }), `${counts.get(phase)} ${phase}`)),
    el("span", { class: "markets" }, el("i", { class: "tile-sign square" }), "On-Demand"), el("span", {}, el("i", { class: "tile-sign" }), "Spot"));
}

// ── tiles ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function drawMap(map, nodes, seen) {
  if (!nodes.length) {
    map.keyed?.clear();
    fill(map, el("p", { class: "empty" }, seen.nodes.length ? "No node matches." : seen.problems.some((each) => each.part === "EC2") ? "EC2 cannot be read, so the workers are not known."
      : "There is no worker yet. The next run launches as many as min asks for."));
    return;
  }
  map.querySelector(".empty")?.remove();
  const zones = new Map();
  for (const node of nodes) {
    const zone = node.zone || "no zone";
    if (!zones.has(zone)) zones.set(zone, []);
    zones.get(zone).push(node);
  }
  map.dataset.size = nodes.length > 400 ? "tiny" : nodes.length > 80 ? "small" : nodes.length > 24 ? "medium" : "large";
  keyed(map, [...zones].sort(([a], [b]) => (a < b ? -1 : 1)), ([zone]) => zone,
    ([zone]) => el("div", { class: "zone" }, el("h3", {}, zone, " ", el("span", { class: "note" })), el("div", { class: "tiles", role: "group", "aria-label": `Nodes in ${zone}` })),
    (group, [, own]) => {
      text(group.querySelector(".note"), plural(own.length, "node"));
      const tiles = group.querySelector(".tiles");
      keyed(tiles, own, (node) => node.id, makeTile, updateTile);
      if (!tiles.querySelector('[tabindex="0"]')) tiles.firstElementChild?.setAttribute("tabindex", "0");
    });
}

function makeTile(node) {
  return el("button", { type: "button", class: "tile", tabindex: "-1", data: { id: node.id } }, el("span", { class: "use" }), el("span", { class: "tile-text" }), el("small", { class: "tile-name" }, node.name), el("small", {}, node.type), el("small", { class: "tile-pods" }));
}

function updateTile(tile, node) {
  const key = `${node.name}/${node.phase}/${node.market}/${Math.round(node.cpu ?? node.requested_cpu ?? 0)}/${node.pods}/${node.why_code}`;
  if (tile.dataset.key === key) return;
  tile.dataset.key = key;
  tile.dataset.phase = node.phase;
  tile.dataset.market = node.market;
  const use = node.cpu ?? node.requested_cpu ?? 0;
  text(tile.children[2], node.name); // an instance has no other name than its id before it has joined
  text(tile.lastElementChild, pods(node));
  tile.firstElementChild.style.setProperty("--use", `${Math.min(100, use)}%`);
  tile.children[1].textContent = node.phase === "ready" ? `${Math.round(use)} %` : node.phase;
  tile.title = `${node.name}: ${node.phase}`;
  tile.setAttribute("aria-label", `${node.name}, ${node.phase}, ${MARKETS[node.market]}, CPU ${Math.round(use)} percent, ${pods(node)}`);
}

const pods = (node) => (node.pods === null ? "– pods" : plural(node.pods, "pod"));

// One stop of the Tab key for each zone; arrows move between its tiles.
function roam(event) {
  const tile = event.target.closest(".tile");
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!tile || !step) return;
  event.preventDefault();
  const next = step > 0 ? tile.nextElementSibling : tile.previousElementSibling;
  if (!next) return;
  tile.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

// ── one node ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function details(node, seen) {
  const operation = seen.operations.find((each) => each.subject === node.name || each.subject === node.id);
  const rows = [
    ["Phase", el("span", { class: "pill", data: { phase: node.phase } }, node.phase)],
    ["Why", node.why || "–"], ["Protected", node.protected ? "by an annotation" : "no"],
    ["Instance", node.id],
    ["Pool", node.pool], ["Zone", node.zone], ["Market", MARKETS[node.market]], ["Type", node.type || "–"],
    ["Age", node.since ? span(seen.at - node.since) : "–"],
    ["Pods", node.pods ?? "not known"],
    ["CPU used", percent(node.cpu)], ["CPU requested", percent(node.requested_cpu)], ["Memory requested", percent(node.requested_memory)],
    ["Price", node.usd === null ? "not known" : `${usd(node.usd, 4)}/h`],
  ];
  if (operation) rows.push(["Operation", `${operation.step}${operation.total ? `, ${plural(operation.total, "pod")} left` : ""}`]);
  for (const pod of operation?.left ?? []) rows.push(["", `${pod.pod}${pod.budget ? `: waits for ${pod.budget}` : ""}`]);
  return el("dl", { class: "details" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function actions(node, seen) {
  const owned = seen.pools.some((pool) => pool.name === node.pool);
  const reason = el("input", { type: "text", id: "node-reason", placeholder: "why, for the others" });
  const send = async (kind, more = {}) => {
    try {
      const answer = await post("commands", { kind, instance: node.id, reason: reason.value, ...more });
      toast(answer.message);
      document.getElementById("drawer").close();
    } catch (error) {
      toast(error.message, "error");
    }
  };
  return el("div", { class: "actions" }, el("h3", {}, "Steer this node"),
    el("label", { for: "node-reason" }, "Reason"), reason,
    el("div", { class: "row" },
      owned ? el("button", { type: "button", onclick: () => send("recycle") }, "Recycle") : null,
      el("button", { type: "button", class: owned ? "ghost" : "", onclick: twice("Drain and remove: sure?", () => send("drain")) }, "Drain and remove"),
      el("button", { type: "button", class: "ghost", onclick: () => send("protect", { node: node.name, on: !node.protected }) }, node.protected ? "Protect no more" : "Protect")),
    el("p", { class: "note" }, owned ? "Recycle launches a new worker first, then drains this one as PodDisruptionBudgets allow. Drain and remove launches one only if the pool cannot spare this node. Protect keeps it from both, from scale-down and from rotation."
      : "No pool of the policy owns this node: it is drained as PodDisruptionBudgets allow, and nothing takes its place."));
}

// ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────

const COLUMNS = [["name", "Node"], ["phase", "Phase"], ["pool", "Pool"], ["zone", "Zone"], ["market", "Market"], ["type", "Type"], ["since", "Age"], ["pods", "Pods"], ["cpu", "CPU"], ["usd", "$/h"], ["why", "Why it stays or leaves"]];

function drawTable(rows, foot, nodes, at, state) {
  const order = [...nodes].sort((a, b) => { const x = a[state.sort] ?? "", y = b[state.sort] ?? ""; return x < y ? -1 : x > y ? 1 : 0; });
  const shown = order.slice(0, state.shown);
  keyed(rows, shown, (node) => node.id, (node) => el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", class: "link", data: { id: node.id } }, node.name)), COLUMNS.slice(1).map(() => el("td"))), (row, node) => {
    const cells = row.children;
    const values = [node.phase, node.pool, node.zone, MARKETS[node.market], node.type, node.since ? span(at - node.since) : "–", node.pods ?? "–", percent(node.cpu), node.usd === null ? "–" : node.usd.toFixed(4), node.why];
    values.forEach((value, index) => text(cells[index + 1], value));
    text(cells[0].firstElementChild, node.name);
    cells[1].dataset.phase = node.phase;
  });
  text(foot, `${shown.length} of ${nodes.length}`);
}
