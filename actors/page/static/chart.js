// The chart of one conversation: tokens by version, against what is usable, the trigger and the target.
// The table on the same page has the same numbers.
"use strict";

(() => {
  const HEIGHT = 300;
  // versions are counted: there is none between two
  const WHOLE = [0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));
  const place = document.getElementById("chart");
  let plot = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function line(name, extra) {
    return { label: name, stroke: colour(name), width: 1.5, points: { show: false }, ...extra };
  }

  function dots(stage) {
    return {
      label: stage, stroke: colour(stage), paths: () => null,
      points: { show: true, size: 7, fill: colour(stage), stroke: colour(stage) },
    };
  }

  function axis(extra) {
    return { stroke: colour("text"), grid: { stroke: colour("line"), width: 0.5 }, ticks: { stroke: colour("line") }, ...extra };
  }

  function draw(columns) {
    const there = columns.marked.filter((stage) => columns.stage.includes(stage));
    const marks = there.map((stage) => columns.tokens.map((tokens, index) => (columns.stage[index] === stage ? tokens : null)));
    if (plot) plot.destroy();
    place.textContent = "";
    place.setAttribute("role", "img");
    plot = new uPlot({
      width: place.clientWidth, height: HEIGHT,
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, (high || 1) * 1.05] } },
      axes: [axis({ incrs: WHOLE }), axis({ size: 64 })],
      series: [
        { label: "version" },
        line("tokens", {}),
        line("usable", { width: 1 }),
        line("trigger", { width: 1, dash: [8, 4] }),
        line("target", { width: 1, dash: [2, 4] }),
        ...there.map(dots),
      ],
      cursor: { drag: { x: true, y: false } },
    }, [columns.version, columns.tokens, columns.usable, columns.trigger, columns.target, ...marks], place);
    place.dataset.drawn = String(columns.version.length);
  }

  async function load() {
    const answer = await fetch(place.dataset.from, { headers: { Accept: "application/json" } });
    if (answer.status === 202) return setTimeout(load, 1000);
    if (!answer.ok) {
      place.textContent = "The chart cannot be loaded.";
      return;
    }
    const columns = await answer.json();
    draw(columns);
    addEventListener("resize", () => plot.setSize({ width: place.clientWidth, height: HEIGHT }));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(columns));
  }

  if (place) load();
})();
