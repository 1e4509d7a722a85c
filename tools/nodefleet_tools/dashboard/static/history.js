// History: every decision, why, and what another policy would have made of it.
import { get, post } from "./api.js";
import { card, el, fill, openDrawer, segmented, toast } from "./dom.js";
import { clock, day, moment, plural } from "./format.js";

export function historyPage(store) {
  const wanted = { action: "changes", pool: "", text: "" };
  const list = el("ol", { class: "decisions" }), more = el("button", { type: "button", class: "ghost", hidden: true }, "Earlier ones");
  const state = el("p", { class: "note", role: "status" });
  const pool = el("select", { "aria-label": "Pool", onchange: (event) => { wanted.pool = event.target.value; load(); } }, el("option", { value: "" }, "All pools"));
  const search = el("input", { type: "search", placeholder: "Search reasons, votes and nodes", "aria-label": "Search decisions", oninput: later(() => { wanted.text = search.value; load(); }) });
  const root = card("Decisions", el("div", { class: "filters" },
    segmented("Which decisions", [["changes", "Changes"], ["grow", "Grow"], ["shrink", "Shrink"], ["hold", "Hold"], ["", "All"]], wanted.action, (value) => { wanted.action = value; load(); }),
    pool, search, el("button", { type: "button", class: "ghost", onclick: () => load() }, "Refresh")), state, list, more);
  let before = null, asked = 0;
  more.addEventListener("click", () => load(true));

  async function load(further = false) {
    const number = (asked += 1);
    if (!list.children.length) state.textContent = "Reading …";
    const query = new URLSearchParams({ ...wanted, ...(further && before ? { before } : {}) });
    try {
      const found = await get(`decisions?${query}`);
      if (number !== asked) return;
      before = found.before;
      more.hidden = !before;
      if (!further) list.replaceChildren();
      list.append(...found.rows.map(row));
      state.textContent = list.children.length ? "" : "No recorded decision matches.";
    } catch (error) {
      state.textContent = error.message;
    }
  }

  load();
  const opened = decodeURIComponent(location.hash.split("/").slice(1).join("/"));
  if (opened) open(opened);
  return {
    root,
    update(update) {
      const names = update.snapshot.pools.map((each) => each.name);
      if (pool.options.length !== names.length + 1) pool.replaceChildren(pool.options[0], ...names.map((name) => el("option", { value: name }, name)));
    },
  };
}

function later(act) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(act, 250); };
}

function row(each) {
  const action = each.pools.find((pool) => pool.action !== "hold")?.action ?? "hold";
  return el("li", { data: { action } }, el("button", { type: "button", onclick: () => open(each.id) },
    el("time", {}, `${day(each.at)} ${clock(each.at, true)}`),
    el("span", { class: `pill ${action}` }, each.pools.map((pool) => pool.headline.toLowerCase()).join(", ")),
    el("span", { class: "why" }, each.pools.map((pool) => (each.pools.length > 1 ? `${pool.pool}: ` : "") + pool.reason.replace(/^[^:]*: /, "")).join(" · ")),
    each.count > 1 ? el("span", { class: "note" }, `${each.count} alike since ${clock(each.from)}`) : null,
    each.dry ? el("span", { class: "pill" }, "dry run") : null));
}

// ── one decision ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function open(id) {
  const body = el("div", { class: "decision-detail" }, el("p", { class: "note" }, "Reading …"));
  openDrawer("Decision", body);
  try {
    const found = await get(`decisions/${encodeURIComponent(id)}`);
    document.getElementById("drawer-title").textContent = titled(found.pools);
    fill(body, el("p", { class: "note" }, `${moment(found.at)} UTC · policy version ${found.policy} · level ${found.level}${found.dry ? " · dry run" : ""}`),
      found.pools.map(pool), section("Done", found.did.length ? bullets(found.did) : el("p", { class: "note" }, "nothing")),
      found.alerts.length ? section("Alerts", bullets(found.alerts)) : null,
      again(found), saw(found),
      section("Figures", el("dl", { class: "details" }, Object.entries(found.figures).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))),
      found.cut ? el("p", { class: "note" }, "The record was too long: only the beginning of its lists is kept.") : null);
  } catch (error) {
    fill(body, el("p", {}, error.message));
  }
}

const titled = (pools) => pools.map((each) => (pools.length > 1 ? `${each.pool}: ` : "") + each.headline.toLowerCase()).join(", ").replace(/^./, (first) => first.toUpperCase());
const section = (title, ...content) => el("section", { class: "part" }, el("h3", {}, title), ...content);
const bullets = (lines) => el("ul", {}, lines.map((each) => el("li", {}, each)));

function pool(each) {
  return el("div", { class: "pool" },
    el("h3", {}, `${each.pool} `, el("span", { class: `pill ${each.action}` }, each.headline.toLowerCase())), el("p", {}, each.reason),
    section("Votes", each.votes.length ? bullets(each.votes) : el("p", { class: "note" }, "no signal voted")),
    section("Bounds, the strongest last", el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Bounds" }, el("table", {}, el("thead", {}, el("tr", {}, ["Rank", "Nodes", "From", "Because"].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, each.bounds.map((bound) => el("tr", { class: bound.sets ? "sets" : "" }, el("td", {}, bound.rank), el("td", {}, bound.nodes), el("td", {}, bound.source),
        el("td", {}, bound.sentence, bound.sets ? el("b", {}, " (sets the target)") : bound.overruled_by ? el("i", {}, ` (overruled by ${bound.overruled_by})`) : ""))))))),
    each.plan.length ? section("Plan", bullets(each.plan)) : null,
    each.stays.length ? section("Why nodes stay or leave", el("dl", { class: "details" }, each.stays.map((stay) => [el("dt", {}, stay.workers), el("dd", {}, stay.why)]))) : null);
}

function saw(found) {
  if (!found.saw) return section("What it saw", el("p", { class: "note" }, `It cannot be decided again: ${found.not_replayable}.`));
  const seen = found.saw;
  return section("What it saw", el("p", {}, `${seen.instances} instances, ${seen.nodes} nodes, ${plural(seen.pods, "pod")}, ${plural(seen.pending.length, "pending pod")}, ${plural(seen.operations, "operation")} under way.`),
    seen.pending.length ? bullets(seen.pending.slice(0, 20)) : null,
    el("details", {}, el("summary", {}, "Everything, as it is archived"), el("pre", { tabindex: "0" }, JSON.stringify(seen.everything, null, 2))));
}

function again(found) {
  if (found.not_replayable) return null;
  const area = el("textarea", { id: "replay-policy", rows: "6", spellcheck: false, placeholder: "limits: {min: 3, max: 12}" });
  const result = el("div", { role: "status" });
  const send = async (policy) => {
    fill(result, el("p", { class: "note" }, "Deciding …"));
    try {
      show(result, await post(`decisions/${encodeURIComponent(found.id)}/replay`, { policy }), Boolean(policy));
    } catch (error) {
      fill(result, el("p", { class: "wrong" }, error.message));
    }
  };
  return section("Decide it again", el("label", { for: "replay-policy" }, "With another policy (YAML); empty takes its own"), area,
    el("div", { class: "row" }, el("button", { type: "button", onclick: () => send(area.value) }, "Replay")), result);
}

function show(result, found, other) {
  const [first, second] = [titled(found.first), titled(found.second)];
  const said = found.same ? ["The same decision.", `${first}.`] : first === second ? ["As many nodes, otherwise decided.", `${first} both times; below is what differs.`]
    : ["Another decision.", `${first}, ${other ? "with this policy" : "now"}: ${second}.`];
  fill(result, el("p", {}, el("b", {}, said[0]), ` ${said[1]}`),
    found.differences.length ? el("table", {}, el("thead", {}, el("tr", {}, ["", "then", other ? "with this policy" : "now"].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, found.differences.map((each) => el("tr", {}, el("th", { scope: "row" }, each.what), el("td", {}, each.first.join("; ") || "–"), el("td", {}, each.second.join("; ") || "–"))))) : null);
}
