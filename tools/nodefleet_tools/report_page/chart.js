// Drawing: plain SVG from columns of numbers. Colours are CSS variables, so both colour schemes follow by themselves.
// A module for the dashboard; a report, which is one file, takes it in without its last statement.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 46, RIGHT = 58, NARROW = 16, TOP = 6, BOTTOM = 20;
const hour = 3600;

function node(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") made.style.cssText = value;  // a content security policy refuses the attribute
    else made.setAttribute(key, value);
  }
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

const pad = (number) => String(number).padStart(2, "0");

function clock(start, t, withSeconds) {
  const at = new Date((start + t) * 1000);
  const text = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
  return withSeconds ? `${text}:${pad(at.getUTCSeconds())}` : text;
}

// Over several days midnight has the day's name: "00:00" is every one of them.
function moment(start, t, severalDays) {
  const at = start + t;
  if (!severalDays || at % (24 * hour)) return clock(start, t);
  return new Date(at * 1000).toLocaleDateString("en-GB", { weekday: "short", day: "numeric", timeZone: "UTC" });
}

function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(3));
}

// Round steps for an axis: about `wanted` of them up to `most`.
function steps(most, wanted, whole) {
  const rough = most / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let value = 0; value <= most * 1.0001; value += step) found.push(+value.toPrecision(6));
  return found;
}

function timeSteps(from, to, width) {
  const wanted = Math.max(2, Math.floor(width / 64));
  const sizes = [60, 120, 300, 600, 900, 1800, hour, 2 * hour, 3 * hour, 4 * hour, 6 * hour, 12 * hour, 24 * hour, 48 * hour];
  const size = sizes.find((each) => (to - from) / each <= wanted) || 168 * hour;
  return size;
}

// One plot: its scales, its axes, and a layer to draw on.
function plot(holder, { height, range, start, most, ticks, log, bare, labels = true }) {
  holder.querySelectorAll("svg").forEach((old) => old.remove());
  const width = Math.max(240, holder.clientWidth);
  const right = !labels ? NARROW : width < 520 ? 40 : RIGHT;  // room for the labels of dashed lines
  const left = width < 520 ? 38 : LEFT;
  const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, holder);
  const bottom = bare ? height : height - BOTTOM;
  const x = (t) => left + ((t - range[0]) / (range[1] - range[0])) * (width - left - right);
  const scale = log ? (value) => Math.log10(Math.max(log, value) / log) / Math.log10(most / log) : (value) => value / most;
  const y = (value) => bottom - Math.min(1, Math.max(0, scale(value))) * (bottom - TOP);
  const size = timeSteps(range[0], range[1], width - left - right);
  const offset = start % size;
  if (!bare) {
    for (const value of ticks) {
      node("line", { class: value === ticks[0] ? "base" : "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }, svg);
      node("text", { x: left - 7, y: y(value) + 3.5, "text-anchor": "end" }, svg, short(value));
    }
    for (let t = Math.ceil((range[0] + offset) / size) * size - offset; t <= range[1]; t += size) {
      const at = x(t);
      node("line", { class: "axis", x1: at, x2: at, y1: TOP, y2: bottom }, svg);
      node("text", { x: at, y: height - 5, "text-anchor": "middle" }, svg, moment(start, t, range[1] - range[0] > 36 * hour));
    }
  }
  const clip = `clip-${holder.id}`;
  node("rect", { x: left, y: 0, width: width - left - right, height }, node("clipPath", { id: clip }, node("defs", {}, svg)));
  const layer = node("g", { "clip-path": `url(#${clip})` }, svg);
  return { svg, layer, x, y, left, right: width - right, bottom, height, width,
    time: (px) => range[0] + ((px - left) / (width - left - right)) * (range[1] - range[0]) };
}

// Indices that are to be seen, and one on each side so that curves reach the edges.
function visible(times, range) {
  let first = times.findIndex((t) => t >= range[0]);
  if (first < 0) first = times.length - 1;
  let last = times.length - 1;
  while (last > 0 && times[last] > range[1]) last -= 1;
  return [Math.max(0, first - 1), Math.min(times.length - 1, last + 1)];
}

function path(chart, times, values, range, stepped) {
  const [first, last] = visible(times, range);
  let d = "", before = null;
  for (let i = first; i <= last; i += 1) {
    const px = chart.x(times[i]).toFixed(1), py = chart.y(values[i]).toFixed(1);
    if (before === null) d = `M${px} ${py}`;
    else if (stepped && py !== before) d += `H${px}V${py}`;
    else if (stepped) { if (i === last) d += `H${px}`; } else d += `L${px} ${py}`;
    before = py;
  }
  return d;
}

function area(chart, times, tops, bottoms, range) {
  const upper = path(chart, times, tops, range, true);
  if (!upper) return "";
  const [first, last] = visible(times, range);
  let back = "";
  for (let i = last; i >= first; i -= 1) {
    const py = chart.y(bottoms ? bottoms[i] : 0).toFixed(1);
    const to = chart.x(times[Math.min(i + 1, last)]).toFixed(1);
    back += i === last ? `L${chart.x(times[last]).toFixed(1)} ${py}` : `H${to}V${py}`;
  }
  return `${upper}${back}H${chart.x(times[first]).toFixed(1)}Z`;
}

// Spans in which a flag is set.
function spans(times, flags) {
  const found = [];
  for (let i = 0; i < flags.length; i += 1) {
    if (!flags[i]) continue;
    const from = i ? times[i - 1] : times[i];
    const open = found[found.length - 1];
    if (open && open[1] >= from) open[1] = times[i];
    else found.push([from, times[i]]);
  }
  return found;
}

function dashed(chart, value, colour, label) {
  const at = chart.y(value);
  node("line", { x1: chart.left, x2: chart.right, y1: at, y2: at, stroke: colour, "stroke-width": 1.25, "stroke-dasharray": "5 4", "stroke-opacity": 0.8 }, chart.layer);
  if (label) node("text", { x: chart.right + 5, y: at + 3.5, style: `fill:${colour}` }, chart.svg, label);
}

// Several of them: each has its label, and none of these lies on another.
function limits(chart, entries) {
  let free = Infinity;  // where the label above the last one may stand at most
  for (const [value, colour] of entries.slice().sort(([one], [other]) => one - other)) {
    dashed(chart, value, colour);
    const at = Math.min(chart.y(value) + 3.5, free);
    node("text", { x: chart.right + 5, y: at, style: `fill:${colour}` }, chart.svg, `${short(value)} %`);
    free = at - 11;
  }
}

const GLYPHS = {
  grow: "M0-6.5L6 5H-6Z", replace: "M0-7L7 0L0 7L-7 0Z", shrink: "M0 6.5L6-5H-6Z",
  removed: "M-3.5-3.5H3.5V3.5H-3.5Z", warning: "M0-6A6 6 0 1 1-.01-6Z", happened: "M-5-5H5V5H-5Z",
};

export { GLYPHS, area, clock, dashed, limits, node, path, plot, short, spans, steps, visible };
