// The page: four curves and a lane of marks over one time axis, a cross-hair through all of them, and zooming.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const whole = [0, Math.max(1, data.end - data.start)];
  let range = [...whole], chosen = null, charts = {};
  const hidden = new Set();
  const tip = document.getElementById("tip");
  const reset = document.getElementById("reset");
  const colour = (name) => `var(--${name})`;
  const names = { "on-demand": "On-Demand", spot: "Spot", booting: "booting", draining: "draining", leaving: "leaving", failed: "failed" };
  const there = data.layers.map((_, index) => data.workers[index].some((count) => count > 0));
  const sums = data.t.map((_, i) => data.workers.reduce((sum, column) => sum + column[i], 0));
  const fixedUsd = (fixed, i) => (fixed.perHour * data.t[i]) / hour;
  const firstFixed = data.fixed[0];

  // Without a service there is neither load nor latency.
  const served = data.slo !== null;
  for (const name of ["load", "latency"]) document.getElementById(name).closest("figure").hidden = !served;

  const legends = {
    load: [["line", "demand", "demand"], ["line thin", "capacity", "capacity of the pods"]]
      .concat(data.room ? [["", "capacity-fill", "room on the ready nodes", "capacity"]] : [])
      .concat(firstFixed && data.room ? [["line dash", "soft", `fixed at ${firstFixed.nodes}`]] : [])
      .concat(data.violated.some(Boolean) ? [["", "bad-fill", "SLO violated", "bad"]] : []),
    workers: data.layers.filter((_, index) => there[index]).map((name) => ["", name, names[name]]),
    use: [["line", "demand", "CPU"], ["line", "happened", "memory"], ["line dash", "soft", "thresholds"]],
    latency: [["line", "demand", "latency"]].concat(data.slo ? [["line dash", "bad", "SLO"]] : []),
    cost: [["line", "good", "autoscaled"]].concat(data.fixed.map((each, index) => ["line", index ? "removed" : "soft", `fixed at ${each.nodes}`])),
  };
  for (const [name, entries] of Object.entries(legends)) {
    const holder = document.querySelector(`[data-legend="${name}"]`);
    for (const [kind, fill, text, edge] of entries) {
      const item = document.createElement("span"), sign = document.createElement("i");
      sign.className = kind;
      if (kind) sign.style.borderTopColor = colour(fill);
      else sign.style.cssText = `background:${colour(fill)}${edge ? `;box-shadow:inset 0 0 0 1px ${colour(edge)}` : ""}`;
      item.append(sign, text);
      holder.append(item);
    }
  }

  const inView = (values) => {
    const [first, last] = visible(data.t, range);
    return Math.max(...values.slice(first, last + 1), 0);
  };
  const above = (most) => most * 1.08 || 1;

  function drawLoad() {
    const room = data.room || data.capacity;
    const most = above(Math.max(inView(data.asked), inView(room), inView(data.capacity)));
    const chart = plot(document.getElementById("load"), { height: 230, range, start: data.start, most, ticks: steps(most, 4) });
    for (const [from, to] of spans(data.t, data.violated)) {
      node("rect", { class: "violated", x: chart.x(from), y: TOP, width: Math.max(1.5, chart.x(to) - chart.x(from)), height: chart.bottom - TOP }, chart.layer);
    }
    node("path", { d: area(chart, data.t, room, null, range), fill: colour("capacity-fill") }, chart.layer);
    node("path", { d: path(chart, data.t, data.capacity, range, true), fill: "none", stroke: colour("capacity"), "stroke-width": 1 }, chart.layer);
    if (firstFixed && firstFixed.room) dashed(chart, firstFixed.room, colour("soft"), `fixed ${firstFixed.nodes}`);
    node("path", { d: path(chart, data.t, data.asked, range, false), fill: "none", stroke: colour("demand"), "stroke-width": 1.75, "stroke-linejoin": "round" }, chart.layer);
    return chart;
  }

  // At the scale of a day a node boots for less than a pixel: what is short is drawn at least three wide.
  function widened(column, chart) {
    const each = (chart.x(data.t[data.t.length - 1]) - chart.x(data.t[0])) / Math.max(1, data.t.length - 1);
    const more = Math.max(0, Math.ceil(3 / Math.max(each, 0.01)) - 1);
    return more > 12 ? column : column.map((_, i) => Math.max(...column.slice(Math.max(0, i - more), i + 1)));
  }

  function drawWorkers() {
    const fixed = firstFixed ? firstFixed.nodes : 0;
    const most = Math.max(inView(sums), data.otherWorkers ? inView(data.otherWorkers) : 0, Math.min(fixed, inView(sums) * 2)) * 1.12 || 1;
    const chart = plot(document.getElementById("workers"), { height: 190, range, start: data.start, most, ticks: steps(most, 5, true) });
    let below = data.t.map(() => 0);
    data.workers.map((column, index) => (index < 2 ? column : widened(column, chart))).forEach((column, index) => {
      const top = below.map((value, i) => value + column[i]);
      if (there[index]) node("path", { d: area(chart, data.t, top, below, range), fill: colour(data.layers[index]), "shape-rendering": "crispEdges" }, chart.layer);
      below = top;
    });
    if (data.otherWorkers) node("path", { d: path(chart, data.t, data.otherWorkers, range, true), fill: "none", stroke: colour("ink"), "stroke-width": 1.25, "stroke-dasharray": "4 3" }, chart.layer);
    if (firstFixed && fixed <= most) dashed(chart, fixed, colour("soft"), `fixed ${fixed}`);
    if (data.min && data.min !== fixed) dashed(chart, data.min, colour("soft"), `min ${data.min}`);
    if (data.max <= most && data.max !== fixed) dashed(chart, data.max, colour("bad"), `max ${data.max}`);
    return chart;
  }

  function drawPending() {
    const most = Math.max(4, inView(data.waiting)) * 1.08;
    const chart = plot(document.getElementById("pending"), { height: 90, range, start: data.start, most, ticks: steps(most, 3, true) });
    node("path", { d: area(chart, data.t, data.waiting, null, range), fill: colour("shrink"), "fill-opacity": 0.3 }, chart.layer);
    node("path", { d: path(chart, data.t, data.waiting, range, true), fill: "none", stroke: colour("shrink"), "stroke-width": 1.5 }, chart.layer);
    return chart;
  }

  function drawUse() {
    const chart = plot(document.getElementById("use"), { height: 150, range, start: data.start, most: 100, ticks: [0, 25, 50, 75, 100] });
    const { cpuUp, cpuDown, memoryUp, memoryDown } = data.thresholds;
    limits(chart, [[cpuUp, colour("demand")], [cpuDown, colour("demand")], [memoryUp, colour("happened")], [memoryDown, colour("happened")]]);
    for (const [values, name] of [[data.memory, "happened"], [data.cpu, "demand"]]) {
      const known = data.t.map((_, i) => i).filter((i) => values[i] !== null);
      node("path", { d: path(chart, known.map((i) => data.t[i]), known.map((i) => values[i]), range, false), fill: "none", stroke: colour(name), "stroke-width": 1.5 }, chart.layer);
    }
    return chart;
  }

  function drawLatency() {
    const round = [1, 2, 5, 10];
    const least = Math.max(1, Math.min(...data.latency.filter((each) => each > 0), 1e6));
    const power = 10 ** Math.floor(Math.log10(least));
    const low = power * round.filter((each) => each * power <= least).pop();
    const most = Math.max(inView(data.latency) * 1.2, (data.slo || low) * 2, low * 10);
    const ticks = [];
    for (let decade = power; decade <= most; decade *= 10) {
      for (const each of most / low < 300 ? [1, 2, 5] : [1]) if (each * decade >= low && each * decade <= most) ticks.push(each * decade);
    }
    const chart = plot(document.getElementById("latency"), { height: 140, range, start: data.start, most, ticks, log: low });
    if (data.slo) {
      node("rect", { class: "violated", x: chart.left, y: TOP, width: chart.right - chart.left, height: chart.y(data.slo) - TOP, opacity: 0.5 }, chart.layer);
      dashed(chart, data.slo, colour("bad"), `SLO ${short(data.slo)}`);
    }
    node("path", { d: path(chart, data.t, data.latency.map((each) => each || low), range, false), fill: "none", stroke: colour("demand"), "stroke-width": 1.5, "stroke-linejoin": "round" }, chart.layer);
    return chart;
  }

  function drawCost() {
    const columns = data.fixed.map((each) => data.t.map((_, i) => fixedUsd(each, i)));
    const most = above(Math.max(inView(data.usd), ...columns.map(inView)));
    const chart = plot(document.getElementById("cost"), { height: 170, range, start: data.start, most, ticks: steps(most, 4) });
    const [, last] = visible(data.t, range);
    const line = (values, name, width, label) => {
      node("path", { d: path(chart, data.t, values, range, false), fill: "none", stroke: colour(name), "stroke-width": width }, chart.layer);
      node("text", { class: "edge", x: chart.right + 5, y: chart.y(values[last]) + 3.5, style: `fill:${colour(name)}` }, chart.svg, label);
    };
    if (columns.length) {
      const [first] = visible(data.t, range);
      let between = path(chart, data.t, columns[0], range, false);
      for (let i = last; i >= first; i -= 1) between += `L${chart.x(data.t[i]).toFixed(1)} ${chart.y(data.usd[i]).toFixed(1)}`;
      node("path", { d: `${between}Z`, fill: colour("good-fill") }, chart.layer);
    }
    columns.forEach((values, index) => line(values, index ? "removed" : "soft", 1.5, `${values[last].toFixed(2)}`));
    line(data.usd, "good", 2.25, data.usd[last].toFixed(2));
    return chart;
  }

  function drawLane() {
    const holder = document.getElementById("lane");
    const options = { height: 22, range, start: data.start, most: 1, ticks: [], bare: true };
    let chart = plot(holder, options);
    const ends = [], placed = [];
    data.marks.forEach((mark, index) => {
      if (hidden.has(mark.kind) || mark.t < range[0] || mark.t > range[1]) return;
      const at = chart.x(mark.t);
      let row = ends.findIndex((end) => end < at - 14);
      if (row < 0) row = ends.length < 5 ? ends.push(0) - 1 : ends.indexOf(Math.min(...ends));
      ends[row] = at;
      placed.push([mark, index, at, row]);
    });
    chart = plot(holder, { ...options, height: 4 + 18 * Math.max(1, ends.length) });
    placed.forEach(([mark, index, at, row]) => {
      const glyph = node("path", { d: GLYPHS[mark.kind], fill: colour(mark.kind), class: `glyph${index === chosen ? " chosen" : ""}`, transform: `translate(${at.toFixed(1)} ${10 + row * 18})` }, chart.svg);
      glyph.addEventListener("pointerenter", (event) => { cross(mark.t); show(event, mark.t, index); });
      glyph.addEventListener("pointerleave", leave);
      glyph.addEventListener("click", (event) => { event.stopPropagation(); choose(index, true); });
    });
    return chart;
  }

  function draw() {
    charts = { lane: drawLane(), workers: drawWorkers(), pending: drawPending(), use: drawUse(), cost: drawCost() };
    if (served) Object.assign(charts, { load: drawLoad(), latency: drawLatency() });
    reset.hidden = range[0] === whole[0] && range[1] === whole[1];
    if (chosen !== null) guide(data.marks[chosen]);
  }

  function guide(mark) {
    for (const [name, chart] of Object.entries(charts)) {
      if (name === "lane" || mark.t < range[0] || mark.t > range[1]) continue;
      const at = chart.x(mark.t);
      node("line", { class: "guide", x1: at, x2: at, y1: 0, y2: chart.bottom, stroke: colour(mark.kind) }, chart.svg);
    }
  }

  function cross(t) {
    document.querySelectorAll(".cross").forEach((old) => old.remove());
    if (t === null) return;
    for (const chart of Object.values(charts)) {
      const at = chart.x(t);
      if (at >= chart.left && at <= chart.right) node("line", { class: "cross", x1: at, x2: at, y1: 0, y2: chart.bottom }, chart.svg);
    }
  }

  const nearest = (t) => {
    let low = 0, high = data.t.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (data.t[middle] < t) low = middle + 1; else high = middle; }
    return low && t - data.t[low - 1] < data.t[low] - t ? low - 1 : low;
  };

  function row(list, name, value) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name; dd.textContent = value; list.append(dt, dd);
  }

  function show(event, t, only) {
    const i = nearest(t);
    tip.replaceChildren();
    const at = document.createElement("b");
    at.className = "at";
    at.textContent = only === undefined ? clock(data.start, data.t[i]) : clock(data.start, data.marks[only].t, true);
    tip.append(at);
    const near = only === undefined ? data.marks.filter((mark) => !hidden.has(mark.kind) && Math.abs(mark.t - t) <= (range[1] - range[0]) / 200) : [data.marks[only]];
    if (only === undefined) {
      const list = document.createElement("dl");
      if (served) {
        row(list, "Demand", `${short(data.asked[i])}/s`);
        row(list, "Capacity of pods", `${short(data.capacity[i])}/s`);
        if (data.room) row(list, "Room on nodes", `${short(data.room[i])}/s`);
        row(list, "Latency", `${short(data.latency[i])} ms${data.violated[i] ? " ✗" : ""}`);
      }
      if (data.cpu[i] !== null) row(list, "CPU", `${data.cpu[i]} %`);
      if (data.memory[i] !== null) row(list, "Memory", `${data.memory[i]} %`);
      data.layers.forEach((name, index) => { if (data.workers[index][i]) row(list, names[name], data.workers[index][i]); });
      if (data.waiting[i]) row(list, "Pods waiting", data.waiting[i]);
      row(list, "Cost so far", `${data.usd[i].toFixed(2)} USD`);
      if (firstFixed) row(list, `Fixed at ${firstFixed.nodes}`, `${fixedUsd(firstFixed, i).toFixed(2)} USD`);
      tip.append(list);
    }
    for (const mark of near.slice(0, 4)) {
      const text = document.createElement("p"), title = document.createElement("b");
      text.className = mark.kind;
      title.textContent = mark.title ? `${mark.title} ` : "";
      text.append(title, mark.text);
      tip.append(text);
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), gap = 14;
    let left = event.clientX + gap;
    if (left + box.width > innerWidth - 8) left = event.clientX - box.width - gap;
    const top = Math.min(Math.max(8, event.clientY - box.height / 2), innerHeight - box.height - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${top}px`;
  }

  function leave() { tip.hidden = true; cross(null); }

  function choose(index, scroll) {
    chosen = index;
    document.querySelectorAll(".marks .chosen").forEach((old) => old.classList.remove("chosen"));
    const item = document.querySelector(`[data-mark="${index}"]`);
    item.classList.add("chosen");
    if (scroll) item.parentElement.scrollTo({ top: item.offsetTop - item.parentElement.offsetTop - 60, behavior: "smooth" });
    draw();
  }

  let dragging = null;
  for (const name of ["load", "workers", "pending", "use", "latency", "cost"]) {
    const holder = document.getElementById(name);
    const time = (event) => {
      const chart = charts[name];
      const t = chart.time(event.clientX - holder.getBoundingClientRect().left);
      return Math.min(range[1], Math.max(range[0], t));
    };
    holder.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) { cross(time(event)); show(event, time(event)); return; }
      dragging = { name, from: time(event), to: null };
      holder.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    holder.addEventListener("pointermove", (event) => {
      const t = time(event);
      cross(t);
      show(event, t);
      if (!dragging) return;
      dragging.to = t;
      document.querySelectorAll(".select").forEach((old) => old.remove());
      for (const chart of Object.values(charts)) {
        const [a, b] = [chart.x(dragging.from), chart.x(t)].sort((one, other) => one - other);
        node("rect", { class: "select", x: a, y: 0, width: b - a, height: chart.bottom }, chart.svg);
      }
    });
    holder.addEventListener("pointerup", () => {
      document.querySelectorAll(".select").forEach((old) => old.remove());
      if (dragging && dragging.to !== null && Math.abs(dragging.to - dragging.from) > (range[1] - range[0]) / 100) {
        range = [dragging.from, dragging.to].sort((one, other) => one - other);
        if (range[1] - range[0] < 300) range = [range[0] - 150, range[1] + 150];
        draw();
      }
      dragging = null;
    });
    holder.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") leave(); });
    holder.addEventListener("dblclick", () => { range = [...whole]; draw(); });
  }
  reset.addEventListener("click", () => { range = [...whole]; draw(); });
  document.addEventListener("scroll", leave, { passive: true });

  document.querySelectorAll(".switch input").forEach((input) => input.addEventListener("change", () => {
    if (input.checked) hidden.delete(input.value); else hidden.add(input.value);
    document.querySelectorAll(`.marks [data-kind="${input.value}"]`).forEach((item) => { item.hidden = !input.checked; });
    draw();
  }));
  document.querySelectorAll(".marks li").forEach((item) => item.querySelector("button").addEventListener("click", () => {
    choose(Number(item.dataset.mark), false);
    document.querySelector(".charts").scrollIntoView({ behavior: "smooth", block: "start" });
  }));

  new ResizeObserver(draw).observe(document.querySelector(".charts"));
})();
