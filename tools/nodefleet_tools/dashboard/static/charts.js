// The charts of the page, on the drawing code that the HTML reports use too.
import { area, clock, dashed, limits, node, path, plot, short, steps } from "./chart.js";
import { el } from "./dom.js";

const POINTS = 700;  // more than a screen has columns for

// At most so many points, the highest of each group in `peaks` columns: a short spike must not disappear.
export function thinned(columns, range, peaks = []) {
  const t = columns.t;
  let first = 0;
  while (first < t.length && t[first] < range[0]) first += 1;
  first = Math.max(0, first - 1);
  const count = t.length - first;
  const stride = Math.max(1, Math.ceil(count / POINTS));
  const found = {};
  for (const name of Object.keys(columns)) {
    const values = columns[name];
    const kept = [];
    for (let at = first; at < t.length; at += stride) {
      const last = Math.min(at + stride, t.length) - 1;
      if (peaks.includes(name)) {
        let most = values[at];
        for (let i = at; i <= last; i += 1) if (values[i] !== null && (most === null || values[i] > most)) most = values[i];
        kept.push(most);
      } else kept.push(values[last]);
    }
    found[name] = kept;
  }
  return found;
}

// A missing value breaks a curve: pieces without holes. `others` are values of the same times that go with them.
function pieces(times, values, others) {
  const found = [];
  let open = null;
  for (let i = 0; i < times.length; i += 1) {
    if (values[i] === null || values[i] === undefined) open = null;
    else {
      if (!open) found.push((open = { t: [], v: [], others: others && [] }));
      open.t.push(times[i]);
      open.v.push(values[i]);
      open.others?.push(others[i]);
    }
  }
  return found;
}

export function line(chart, times, values, range, name, stepped = false) {
  for (const piece of pieces(times, values))
    node("path", { class: `line ${name}`, d: path(chart, piece.t, piece.v, range, stepped) }, chart.layer);
}

export function filled(chart, times, tops, bottoms, range, name) {
  for (const piece of pieces(times, tops, bottoms))
    node("path", { class: `area ${name}`, d: area(chart, piece.t, piece.v, piece.others, range) }, chart.layer);
}

export function band(chart, rows, name) {
  if (rows.length < 2) return;
  const up = rows.map(([t, , , high], i) => `${i ? "L" : "M"}${chart.x(t).toFixed(1)} ${chart.y(high).toFixed(1)}`);
  const down = rows.slice().reverse().map(([t, low]) => `L${chart.x(t).toFixed(1)} ${chart.y(low).toFixed(1)}`);
  node("path", { class: `area ${name}`, d: `${up.join("")}${down.join("")}Z` }, chart.layer);
  const middle = rows.map(([t, , value], i) => `${i ? "L" : "M"}${chart.x(t).toFixed(1)} ${chart.y(value).toFixed(1)}`);
  node("path", { class: `line ${name}`, d: middle.join("") }, chart.layer);
}

export function axis(most, whole = false) {
  const ticks = steps(Math.max(most, whole ? 1 : 0.01), 4, whole);
  return { most: Math.max(most, ticks[ticks.length - 1]) * 1.04, ticks };
}

export { clock, dashed, limits, node, plot, short };

// A chart that draws itself again when its data or its size changes, with values under the pointer.
export class Chart {
  constructor(label, height, draw, describe) {
    this.holder = el("div", { class: "chart", id: `chart-${(Chart.made = (Chart.made || 0) + 1)}`, tabindex: "0", role: "group", "aria-label": label });
    this.tip = el("div", { class: "tip", hidden: true });
    this.label = label;
    this.height = height;
    this.draw = draw;
    this.describe = describe;
    this.holder.append(this.tip);
    this.holder.addEventListener("pointermove", (event) => this.point(event.clientX - this.holder.getBoundingClientRect().left));
    this.holder.addEventListener("pointerleave", () => this.leave());
    this.holder.addEventListener("keydown", (event) => this.key(event));
    this.holder.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => this.data && this.update(this.data)).observe(this.holder);
  }

  update(data) {
    this.data = data;
    if (!this.holder.clientWidth) return;
    this.chart = this.draw(this.holder, this.height, data);
    const svg = this.chart.svg;
    svg.setAttribute("aria-label", `${this.label}. ${this.describe(data, data.t.length - 1).map(([name, value]) => `${name} ${value}`).join(", ")}`);
    this.cursor = node("line", { class: "cursor", y1: 6, y2: this.chart.bottom, x1: -9, x2: -9 }, svg);
    if (this.index !== undefined && this.index !== null) this.show(Math.min(this.index, data.t.length - 1));
  }

  point(px) {
    if (!this.data || !this.data.t.length) return;
    const wanted = this.chart.time(px);
    const times = this.data.t;
    let low = 0, high = times.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < wanted) low = middle + 1; else high = middle;
    }
    this.show(low && wanted - times[low - 1] < times[low] - wanted ? low - 1 : low);
  }

  key(event) {
    if (!this.data || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const last = this.data.t.length - 1;
    const from = this.index ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    this.show(Math.max(0, Math.min(last, to)));
  }

  show(index) {
    this.index = index;
    const x = this.chart.x(this.data.t[index]);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.tip.replaceChildren(el("strong", {}, clock(0, this.data.t[index])),
      ...this.describe(this.data, index).map(([name, value]) => el("span", {}, el("i", {}, name), " ", value)));
    this.tip.hidden = false;
    const width = this.holder.clientWidth;
    this.tip.style.left = `${Math.max(0, Math.min(width - this.tip.offsetWidth, x - this.tip.offsetWidth / 2))}px`;
  }

  leave() {
    this.index = null;
    this.tip.hidden = true;
    if (this.cursor) for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, -9);
  }
}
