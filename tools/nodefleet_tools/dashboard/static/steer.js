// Steer: operator commands. Each becomes a record that the next run executes, and an event that names its author.
import { post } from "./api.js";
import { card, el, fill, keyed, text, toast } from "./dom.js";
import { clock, day } from "./format.js";
import { policyCard } from "./policy.js";

const BY_OPERATORS = ["paused", "resumed", "scaled-by-person", "recycled", "drained", "handed-over", "protected", "policy-changed"];
const TIMES = [[30, "30 minutes"], [60, "1 hour"], [120, "2 hours"], [480, "8 hours"], [1440, "a day"], [10080, "a week"]];

export async function send(content, form) {
  try {
    const answer = await post("commands", content);
    toast(answer.message, "good");
    form?.reset();
    return true;
  } catch (error) {
    toast(error.message, "error");
    return false;
  }
}

export function steerPage(store) {
  const inForce = el("ul", { class: "list" }), audit = el("ol", { class: "list feed" });
  const pools = [];
  const poolSelect = (all) => { const select = el("select", { name: "pool" }, all ? el("option", { value: "" }, "all pools") : null); pools.push(select); return select; };
  const editor = policyCard(store), node = oneNode(store);
  const dry = dryRun(store);
  const root = el("div", { class: "steer" }, el("div", { class: "steer-cards" }, pause(poolSelect(true)), scale(poolSelect(false), store), node.root, dry.root), card("In force", inForce), editor.root, card("Who did what", audit));
  return {
    root,
    update({ snapshot: seen, activity }) {
      const names = seen.pools.map((pool) => pool.name);
      for (const select of pools) {
        const own = [...select.options].filter((option) => option.value).map((option) => option.value);
        if (own.join() !== names.join()) select.replaceChildren(...[...select.options].filter((option) => !option.value), ...names.map((name) => el("option", { value: name }, name)));
      }
      listCommands(inForce, seen);
      listAudit(audit, activity);
      node.update(seen);
      dry.update(seen);
    },
  };
}

function field(label, control) {
  return el("label", { class: "field" }, el("span", {}, label), control);
}

const times = (open) => el("select", { name: "minutes" }, open ? el("option", { value: "" }, "until resumed") : null, TIMES.map(([minutes, title]) => el("option", { value: String(minutes), selected: minutes === 120 && !open ? "selected" : null }, title)));  // as an attribute: a reset goes back to it
const reason = (required) => el("input", { name: "reason", type: "text", required, maxlength: "300", placeholder: required ? "needed: for the others" : "for the others" });

// `act` gives the command; none if it has to ask once more.
function form(title, note, fields, label, act) {
  const made = el("form", { onsubmit: async (event) => {
    event.preventDefault();
    const content = act(Object.fromEntries(new FormData(made)));
    if (content) await send(content, made);
  } }, el("p", { class: "note" }, note), fields, el("div", { class: "row" }, el("button", { type: "submit" }, label)));
  return card(title, made);
}

function pause(pools) {
  const lasting = times(true), open = lasting.options[0];
  // A pause of the scale-down needs an end: a fleet that never shrinks is a bill.
  const what = el("select", { name: "what", onchange: () => {
    open.disabled = what.value === "scale-down";
    if (open.disabled && lasting.selectedIndex === 0) lasting.value = "120";
  } }, el("option", { value: "" }, "all scaling"), el("option", { value: "scale-down" }, "scale-down only"));
  const card = form("Pause scaling", "Min is still kept, and interrupted nodes are still drained and replaced. Nothing else is launched or removed; with scale-down only, pools grow and nothing else is removed.",
    [field("Pool", pools), field("What", what), field("For", lasting), field("Reason", reason(false))], "Pause",
    (values) => ({ kind: "pause", pool: values.pool, scale_down_only: values.what === "scale-down", minutes: values.minutes ? Number(values.minutes) : null, reason: values.reason }));
  card.querySelector("form").addEventListener("reset", () => { open.disabled = false; });
  return card;
}

function scale(pools) {
  return form("Scale a pool", "The pool keeps this size for a time, whatever the signals say. Min and max still hold.",
    [field("Pool", pools), field("Nodes", el("input", { name: "nodes", type: "number", min: "0", required: true })), field("For", times(false)), field("Reason", reason(true))], "Scale",
    (values) => ({ kind: "scale", pool: values.pool, nodes: Number(values.nodes), minutes: Number(values.minutes), reason: values.reason }));
}

const NODE_COMMANDS = {
  recycle: ["Recycle", (node) => ({ kind: "recycle", instance: node.id })],
  drain: ["Drain and remove", (node) => ({ kind: "drain", instance: node.id })],
  protect: ["Protect", (node) => ({ kind: "protect", node: node.name, on: true })],
  free: ["Protect no more", (node) => ({ kind: "protect", node: node.name, on: false })],
};

function oneNode(store) {
  const names = el("datalist", { id: "node-names" });
  const what = el("select", { name: "what", onchange: () => name() }, Object.entries(NODE_COMMANDS).map(([value, [title]]) => el("option", { value }, title)));
  const root = form("One node", "Recycle launches a new worker first; drain does so only if the pool cannot spare the node. PodDisruptionBudgets hold.",
    [field("Node", el("input", { name: "node", type: "text", list: "node-names", required: true, autocomplete: "off", placeholder: "name or instance", oninput: () => name() })), field("What", what), field("Reason", reason(false))], NODE_COMMANDS.recycle[0],
    (values) => {
      const wanted = values.node.trim();
      if (values.what === "drain" && asked !== wanted) {
        name(`Drain and remove ${wanted}: sure?`);
        asked = wanted;
        return null;
      }
      const node = store.update.snapshot.nodes.find((each) => each.name === wanted || each.id === wanted) ?? { id: wanted, name: wanted };
      return { ...NODE_COMMANDS[values.what][1](node), reason: values.reason };
    });
  root.append(names);
  let shown = "", asked = null;
  function name(question) {  // the button says what it does, and asks again after every change
    asked = null;
    text(root.querySelector("button"), question ?? NODE_COMMANDS[what.value][0]);
  }
  root.querySelector("form").addEventListener("reset", () => setTimeout(name));
  return {
    root,
    update(seen) {
      const wanted = seen.nodes.map((node) => node.name);
      if (wanted.join() === shown) return;
      shown = wanted.join();
      names.replaceChildren(...wanted.map((value) => el("option", { value })));
    },
  };
}

function dryRun() {
  const list = el("ul", { class: "list" });
  const root = card("Dry run", el("p", { class: "note" }, "A pool in dry run decides and explains, and changes nothing. A change is a new policy version."), list);
  return {
    root,
    update(seen) {
      keyed(list, seen.pools, (pool) => pool.name, (pool) => el("li", { class: "row" }, el("strong", {}, pool.name), el("span", { class: "pill" }),
        el("button", { type: "button", class: "ghost", onclick: (event) => send({ kind: "dry-run", pool: pool.name, on: event.target.dataset.to === "on" }) })), (item, pool) => {
        text(item.querySelector(".pill"), pool.dry_run ? "dry run" : "acts");
        const button = item.querySelector("button");
        button.dataset.to = pool.dry_run ? "off" : "on";
        text(button, pool.dry_run ? "Let it act" : "Switch to dry run");
      });
    },
  };
}

function endButton(command) {
  const ends = {
    pause: ["Resume", { kind: "resume", pool: command.pool }],
    scale: ["End it", { kind: "cancel-scale", pool: command.pool }],
    drain: ["Withdraw", { kind: "withdraw", what: "drain", instance: command.subject }],
    recycle: ["Withdraw", { kind: "withdraw", what: "recycle", instance: command.subject }],
  };
  const [label, content] = ends[command.kind] ?? [];
  return label ? el("button", { type: "button", class: "ghost", onclick: () => send(content) }, label) : null;
}

function listCommands(list, seen) {
  if (!seen.commands.length) {
    list.keyed?.clear();
    if (!list.querySelector(".empty")) fill(list, el("li", { class: "empty" }, "No command is in force: the pools follow their policy."));
    return;
  }
  list.querySelector(".empty")?.remove();
  keyed(list, seen.commands, (each) => `${each.kind}/${each.subject}/${each.until}`, (each) => el("li", { class: "row" },
    el("span", { class: "pill" }, each.kind), el("strong", {}, each.subject),
    el("span", { class: "note" }, `by ${each.by}${each.reason ? `: ${each.reason}` : ""} · ${each.until ? `until ${day(each.until)} ${clock(each.until)}` : "until resumed"}`),
    endButton(each)), () => {});
}

function listAudit(list, activity) {
  const own = activity.filter((each) => BY_OPERATORS.includes(each.kind));
  if (!own.length) {
    list.keyed?.clear();
    if (!list.querySelector(".empty")) fill(list, el("li", { class: "empty" }, "No operator did anything in the last day."));
    return;
  }
  list.querySelector(".empty")?.remove();
  keyed(list, own, (each) => `${each.at}/${each.text}`, (each) => el("li", {}, el("time", {}, clock(each.at)), el("span", {}, each.text)), () => {});
}
