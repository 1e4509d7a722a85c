// The policy: edit, check, ask what it would have decided last week, save as a new version, roll back.
import { get, post } from "./api.js";
import { card, el, fill, toast, twice } from "./dom.js";
import { clock, day, plural } from "./format.js";

export function policyCard() {
  let version = 0;
  const area = el("textarea", { id: "policy", rows: "14", spellcheck: false, oninput: edited });
  const result = el("div", { role: "status" }), replayed = el("div", { role: "status" }), versions = el("ul", { class: "list" });
  const save = el("button", { type: "button", disabled: true, onclick: apply }, "Save as a new version");
  const ask = el("button", { type: "button", class: "ghost", onclick: whatIf }, "What if, over the last week");
  const checkLater = later(check);
  const root = card("Policy", el("label", { for: "policy", class: "note" }, "The policy in force, as YAML. What is not written keeps its default."), area, result, replayed,
    el("div", { class: "row" }, save, ask, el("button", { type: "button", class: "ghost", onclick: () => load() }, "Reload")),
    el("details", {}, el("summary", {}, "Versions"), versions));

  async function load() {
    try {
      const found = await get("policy");
      version = found.version;
      area.value = found.text;
      area.rows = Math.min(40, Math.max(8, found.text.split("\n").length + 1));
      fill(result);
      fill(replayed);
      save.disabled = true;
      fill(versions, found.versions.map((each) => el("li", { class: "row" }, el("strong", {}, `Version ${each.number}`), el("span", { class: "note" }, `${day(each.at)} ${clock(each.at)} by ${each.by}`),
        each.number === version ? el("span", { class: "pill" }, "in force") : el("button", { type: "button", class: "ghost", onclick: twice(`Roll back to version ${each.number}: sure?`, () => command({ kind: "rollback", number: each.number })) }, "Roll back to it"))));
    } catch (error) {
      fill(result, el("p", { class: "wrong" }, error.message));
    }
  }

  function edited() {
    fill(replayed);  // it was asked about another text
    save.disabled = true;  // until this text is checked
    checkLater();
  }

  async function check() {
    const asked = area.value;
    try {
      const found = await post("policy/check", { text: asked });
      if (area.value !== asked) return;  // edited meanwhile: the next answer counts
      save.disabled = found.problems.length > 0 || found.changes.length === 0;
      fill(result, issues(found.problems, "wrong"), issues(found.warnings, "warning"),
        found.problems.length ? null : found.changes.length ? changes(found.changes) : el("p", { class: "note" }, "Nothing changes."));
    } catch (error) {
      fill(result, el("p", { class: "wrong" }, error.message));
    }
  }

  async function whatIf() {
    const asked = area.value;
    fill(replayed, el("p", { class: "note" }, "Deciding the last week again …"));
    try {
      const found = await post("policy/what-if", { text: asked });
      if (area.value !== asked) return;
      fill(replayed, el("h3", {}, "The last week with this policy"), el("p", {}, summarise(found)),
      found.different.length ? el("ul", { class: "list" }, found.different.map((each) => el("li", {}, el("time", {}, `${day(each.at)} ${clock(each.at)}`), " ", headlines(each.first), "; by this policy ", el("b", {}, headlines(each.second))))) : null,
      el("p", { class: "note" }, "Archived are the decisions that came to something; quiet iterations between them are not asked, so a higher min or a lower threshold may act more often than this says. How the fleet would have developed afterwards is not part of the answer: `nodefleet backtest` plays that."));
    } catch (error) {
      if (area.value === asked) fill(replayed, el("p", { class: "wrong" }, error.message));
    }
  }

  async function apply() {
    await command({ kind: "policy", text: area.value, version });
  }

  async function command(content) {
    try {
      const answer = await post("commands", content);
      toast(answer.message, "good");
      await load();
    } catch (error) {
      toast(error.message, "error");
    }
  }

  load();
  return { root };
}

function summarise(found) {
  if (!found.asked) return "No decision of the last week is archived: the deployment has no bucket, or its runs are older.";
  const other = found.asked - found.same;
  const counted = [[found.more, "ask for more nodes"], [found.fewer, "ask for fewer"], [other - found.more - found.fewer, "do something else"]].filter(([count]) => count);
  return [el("b", {}, other ? `${other} of ${plural(found.asked, "archived decision")} would come out otherwise` : `${found.asked === 1 ? "The one archived decision" : `All ${found.asked} archived decisions`} would come out the same`),
    counted.length ? `: ${counted.map(([count, what]) => `${count} ${what}`).join(", ")}.` : "."];
}

const headlines = (pools) => pools.map((each) => each.headline.toLowerCase()).join(", ");

function issues(found, kind) {
  return found.length ? el("ul", { class: `issues ${kind}` }, found.map((each) => el("li", {}, el("code", {}, each.path || "policy"), ` ${each.value} ${each.wrong}. `, el("b", {}, each.right)))) : null;
}

function changes(found) {
  return el("table", {}, el("thead", {}, el("tr", {}, ["Setting", "Before", "After"].map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, found.map((each) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, each.setting)), el("td", {}, each.before), el("td", {}, each.after)))));
}

function later(act) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(act, 300); };
}
