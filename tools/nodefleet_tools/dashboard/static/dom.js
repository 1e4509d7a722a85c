// The only place that makes elements. Text goes in as text nodes: nothing here parses HTML.

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

// Change a text only if it is another one: an unchanged node costs no layout.
export function text(node, value) {
  const wanted = value === null || value === undefined ? "" : String(value);
  if (node.textContent !== wanted) node.textContent = wanted;
}

// Keep children in step with items: made once by key, updated in place, moved only when the order changed.
export function keyed(parent, items, key, make, update) {
  const known = parent.keyed || (parent.keyed = new Map());
  const seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const id = key(item);
    seen.add(id);
    let child = known.get(id);
    if (!child) {
      child = make(item);
      known.set(id, child);
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const [id, child] of known) {
    if (!seen.has(id)) {
      child.remove();
      known.delete(id);
    }
  }
}

export function card(title, ...content) {
  const id = `card-${(card.made = (card.made || 0) + 1)}`;
  return el("section", { class: "card", "aria-labelledby": id }, el("h2", { id }, title), ...content);
}

// A choice of a few: radio buttons that look like one control.
export function segmented(label, options, chosen, onchange) {
  const name = `choice-${(segmented.made = (segmented.made || 0) + 1)}`;
  return el("fieldset", { class: "segmented" }, el("legend", { class: "visually-hidden" }, label),
    options.map(([value, title]) => el("label", {},
      el("input", { type: "radio", name, value: String(value), checked: value === chosen, onchange: () => onchange(value) }),
      el("span", {}, title))));
}

// The first click asks. For what cannot be taken back, or what all pools follow at once.
export function twice(question, act) {
  return (event) => {
    const button = event.currentTarget;
    if (button.dataset.asked) return act();
    button.dataset.asked = "1";
    text(button, question);
  };
}

export function toast(message, kind = "info") {
  const shown = el("div", { class: `toast ${kind}` }, message);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), kind === "error" ? 9000 : 5000);
}

export function openDrawer(title, ...content) {
  const drawer = document.getElementById("drawer");
  fill(drawer,
    el("div", { class: "drawer-head" }, el("h2", { id: "drawer-title" }, title),
      el("button", { type: "button", class: "icon-button", "aria-label": "Close", onclick: () => drawer.close() }, "✕")),
    el("div", { class: "drawer-body" }, ...content));
  if (!drawer.open) drawer.showModal();
  return drawer;
}
