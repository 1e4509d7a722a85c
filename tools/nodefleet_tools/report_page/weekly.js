// The curves of a week: nodes by market, utilisation with thresholds, pending pods; an hour for each point.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const range = [0, Math.max(3600, data.end - data.start)];
  const colour = (name) => `var(--${name})`;
  const highest = (values) => Math.max(0, ...values.map((value) => value ?? 0));

  function known(chart, values, name) {
    const there = data.t.map((_, i) => i).filter((i) => values[i] !== null);
    node("path", { d: path(chart, there.map((i) => data.t[i]), there.map((i) => values[i]), range, false), fill: "none", stroke: colour(name), "stroke-width": 1.6 }, chart.layer);
  }

  function draw() {
    const total = data.spot.map((value, i) => value + data.onDemand[i]);
    const most = highest(total) * 1.1 || 1;
    const nodes = plot(document.getElementById("nodes"), { height: 200, range, start: data.start, most, ticks: steps(most, 4, true) });
    node("path", { d: area(nodes, data.t, total, data.onDemand, range), fill: colour("spot") }, nodes.layer);
    node("path", { d: area(nodes, data.t, data.onDemand, null, range), fill: colour("on-demand") }, nodes.layer);
    const use = plot(document.getElementById("use"), { height: 150, range, start: data.start, most: 100, ticks: [0, 25, 50, 75, 100] });
    if (data.thresholds) {
      const { cpuUp, cpuDown, memoryUp, memoryDown } = data.thresholds;
      limits(use, [[cpuUp, colour("demand")], [cpuDown, colour("demand")], [memoryUp, colour("happened")], [memoryDown, colour("happened")]]);
    }
    known(use, data.memory, "happened");
    known(use, data.cpu, "demand");
    const top = Math.max(1, highest(data.pending)) * 1.1;
    const pending = plot(document.getElementById("pending"), { height: 90, range, start: data.start, most: top, ticks: steps(top, 3) });
    node("path", { d: area(pending, data.t, data.pending, null, range), fill: colour("shrink"), "fill-opacity": 0.35 }, pending.layer);
  }

  new ResizeObserver(draw).observe(document.querySelector(".charts"));
})();
