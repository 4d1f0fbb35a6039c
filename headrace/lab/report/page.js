"use strict";
// Draws the plots from the samples that the page carries, and again when the warm-up cut moves.
const WHOLE = JSON.parse(document.getElementById("data").textContent);
// What is drawn: of one question, which the page lets choose where there are several.
let DATA = { series: [], figures: [], probes: [] };
function ask(question) {
  const of = (list) => list.filter((each) => each.question === question);
  DATA = { series: of(WHOLE.series), figures: of(WHOLE.figures), probes: of(WHOLE.probes) };
}
const SHARES = [0.5, 0.9, 0.99, 0.999];
const W = 520, H = 280, L = 62, R = 14, T = 10, B = 40;
const NS = "http://www.w3.org/2000/svg";
const names = [...new Set(WHOLE.series.map((s) => s.name))];
const color = (name) => `var(--s${Math.max(0, names.indexOf(name)) % 6})`;
const byId = (id) => document.getElementById(id);

function short(v) {
  if (v === 0) return "0";
  const a = Math.abs(v);
  if (a >= 1e6) return `${+(v / 1e6).toPrecision(3)} M`;
  if (a >= 1e4) return `${+(v / 1e3).toPrecision(3)} K`;
  if (a >= 1e-2) return `${+v.toPrecision(3)}`;
  return v.toExponential(1);
}
function time(v) {
  if (v >= 1) return `${+v.toPrecision(3)} s`;
  return v >= 1e-3 ? `${+(v * 1e3).toPrecision(3)} ms` : `${+(v * 1e6).toPrecision(2)} µs`;
}
function el(tag, attrs, parent, text) {
  const made = document.createElementNS(NS, tag);
  for (const [k, v] of Object.entries(attrs)) made.setAttribute(k, v);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
function scale(low, high, from, to, log) {
  if (log) {
    const a = Math.log10(low), b = Math.log10(high);
    return (v) => from + ((Math.log10(Math.max(v, low)) - a) / (b - a || 1)) * (to - from);
  }
  return (v) => from + ((v - low) / (high - low || 1)) * (to - from);
}
function ticks(low, high, log) {
  const found = [];
  if (log) {
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const m of [1, 2, 5]) {
        const v = m * 10 ** e;
        if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
      }
    return found.length > 8 ? found.filter((_, i) => i % Math.ceil(found.length / 8) === 0) : found;
  }
  const raw = (high - low) / 5 || 1, p = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * p).find((s) => s >= raw) || raw;
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-6; v += step) found.push(v);
  return found;
}
// A plot with axes; gives the picture and its two scales, or says that there is nothing to show.
function plot(id, label, x, y) {
  const place = byId(id);
  place.replaceChildren();
  const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, place);
  if (!(isFinite(x.low) && isFinite(y.low) && isFinite(x.high) && isFinite(y.high))) {
    el("text", { x: W / 2, y: H / 2, "text-anchor": "middle" }, svg, "no samples");
    svg.setAttribute("data-points", "0");
    return null;
  }
  const sx = scale(x.low, x.high, L, W - R, x.log), sy = scale(y.low, y.high, H - B, T, y.log);
  for (const v of ticks(x.low, x.high, x.log)) {
    el("line", { x1: sx(v), x2: sx(v), y1: T, y2: H - B, class: "grid" }, svg);
    el("text", { x: sx(v), y: H - B + 15, "text-anchor": "middle" }, svg, x.format(v));
  }
  for (const v of ticks(y.low, y.high, y.log)) {
    el("line", { x1: L, x2: W - R, y1: sy(v), y2: sy(v), class: "grid" }, svg);
    el("text", { x: L - 6, y: sy(v) + 4, "text-anchor": "end" }, svg, y.format(v));
  }
  el("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, svg, x.title);
  svg.setAttribute("data-points", "0");
  return { svg, sx, sy };
}
function path(p, points, stroke, extra) {
  if (!points.length) return;
  const d = points.map(([a, b], i) => `${i ? "L" : "M"}${p.sx(a).toFixed(1)},${p.sy(b).toFixed(1)}`);
  el("path", { d: d.join(""), fill: "none", stroke, "stroke-width": 2, ...extra }, p.svg);
  p.svg.setAttribute("data-points", +p.svg.getAttribute("data-points") + points.length);
}
function least(list) { let m = Infinity; for (const v of list) if (v < m) m = v; return m; }
function most(list) { let m = -Infinity; for (const v of list) if (v > m) m = v; return m; }
function percentile(sorted, share) { return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]; }

// The latencies after the warm-up, system by system; repeats of one are told together.
function rested(cut) {
  return names.map((name) => {
    const own = DATA.series.filter((s) => s.name === name && s.experiment === "latency");
    const values = [];
    for (const s of own) s.due.forEach((at, i) => { if (at >= (cut ?? s.cut)) values.push(s.latency[i]); });
    return { name, values: values.sort((a, b) => a - b) };
  }).filter((s) => s.values.length);
}
function bounds(groups) {
  const low = Math.max(1e-7, least(groups.map((g) => g.values[0])));
  const high = most(groups.map((g) => g.values[g.values.length - 1]));
  return { low: low / 1.2, high: Math.max(high, low * 2) * 1.2 };
}
function drawCdf(groups) {
  const p = plot("cdf", "Share of results at or below a latency",
    { ...bounds(groups), log: true, format: time, title: "latency" },
    { low: 0, high: 1, format: (v) => `${Math.round(v * 100)} %` });
  if (!p) return;
  for (const g of groups) {
    const n = g.values.length, step = Math.max(1, Math.floor(n / 400)), points = [];
    for (let i = 0; i < n; i += step) points.push([g.values[i], (i + 1) / n]);
    points.push([g.values[n - 1], 1]);
    path(p, points, color(g.name));
  }
}
function drawHistogram(groups) {
  const range = bounds(groups), bins = 48, a = Math.log10(range.low), b = Math.log10(range.high);
  const counts = groups.map((g) => {
    const c = new Array(bins).fill(0);
    for (const v of g.values)
      c[Math.min(bins - 1, Math.max(0, Math.floor(((Math.log10(v) - a) / (b - a)) * bins)))]++;
    return c.map((k) => k / g.values.length);
  });
  const p = plot("histogram", "Share of results by latency",
    { ...range, log: true, format: time, title: "latency" },
    { low: 0, high: most(counts.flat()) * 1.05, format: (v) => `${+(v * 100).toPrecision(2)} %` });
  if (!p) return;
  groups.forEach((g, i) => {
    const points = [];
    counts[i].forEach((share, k) => {
      points.push([10 ** (a + (k / bins) * (b - a)), share], [10 ** (a + ((k + 1) / bins) * (b - a)), share]);
    });
    path(p, points, color(g.name));
  });
}
function drawSeries(id, experiment, cut, label) {
  const own = DATA.series.filter((s) => s.experiment === experiment && s.due.length);
  const parts = own.map((s) => ({ s, points: worst(s) }));
  const all = parts.flatMap((x) => x.points);
  const p = plot(id, label,
    { low: 0, high: most(own.map((s) => s.due[s.due.length - 1])), format: short, title: "seconds after the start (due)" },
    { low: Math.max(1e-7, least(all.map((q) => q[1]))) / 1.2, high: most(all.map((q) => q[1])) * 1.2, log: true, format: time });
  if (!p) return;
  for (const { s, points } of parts)
    path(p, points, color(s.name), { "stroke-opacity": s.repeat ? 0.5 : 1 });
  if (cut !== undefined && cut !== null)
    el("line", { x1: p.sx(cut), x2: p.sx(cut), y1: T, y2: H - B, stroke: "var(--bad)", "stroke-dasharray": "4 3" }, p.svg);
}
// The greatest latency of each of 240 stretches: a peak must not vanish between two points.
function worst(s) {
  const end = s.due[s.due.length - 1] || 1, found = new Map();
  s.due.forEach((at, i) => {
    const k = Math.floor((at / end) * 240);
    if (!found.has(k) || found.get(k)[1] < s.latency[i]) found.set(k, [at, s.latency[i]]);
  });
  return [...found.values()].sort((a, b) => a[0] - b[0]);
}
function drawQueues(id, experiments, label) {
  const own = DATA.series.filter((s) => experiments.includes(s.experiment) && s.queue.at.length);
  const p = plot(id, label,
    { low: 0, high: most(own.map((s) => s.queue.at[s.queue.at.length - 1])), format: short, title: "seconds after the start" },
    { low: 0, high: own.length ? Math.max(1, most(own.flatMap((s) => s.queue.length))) * 1.05 : -Infinity, format: short });
  if (!p) return;
  for (const s of own) path(p, s.queue.at.map((at, i) => [at, s.queue.length[i]]), color(s.name), { "stroke-opacity": s.repeat ? 0.5 : 1 });
}
function bars(id, label, rows, format) {
  const place = byId(id);
  place.replaceChildren();
  const step = 34, height = rows.length * step + 30;
  const svg = el("svg", { viewBox: `0 0 ${W} ${height}`, role: "img", "aria-label": label, "data-points": rows.length }, place);
  if (!rows.length) { el("text", { x: W / 2, y: 18, "text-anchor": "middle" }, svg, "no samples"); return; }
  const sx = scale(0, most(rows.map((r) => r.high)) * 1.02, 150, W - R);
  rows.forEach((r, i) => {
    const y = 8 + i * step;
    el("text", { x: 144, y: y + 15, "text-anchor": "end" }, svg, r.label);
    el("rect", { x: 150, y, width: Math.max(1, sx(r.value) - 150), height: 20, fill: r.fill, rx: 3 }, svg);
    if (r.high > r.low) {
      el("line", { x1: sx(r.low), x2: sx(r.high), y1: y + 10, y2: y + 10, stroke: "var(--ink)", "stroke-width": 2 }, svg);
      for (const v of [r.low, r.high]) el("line", { x1: sx(v), x2: sx(v), y1: y + 5, y2: y + 15, stroke: "var(--ink)", "stroke-width": 2 }, svg);
    }
    el("text", { x: Math.min(sx(r.value) + 6, W - R - 70), y: y + 32 }, svg, format(r.value));
  });
}
function drawRates() {
  const own = DATA.figures.filter((f) => f.value !== null
    && (f.experiment === "sustainable" || (f.experiment === "scaling" && / on \d+ (cores|shards)$/.test(f.name) && f.unit === "events/s")));
  bars("rates", "Sustainable rates with their intervals", own.map((f) => ({
    label: f.experiment === "scaling" ? `${f.name.replace("rate ", "")}` : f.label, value: f.value, low: f.low, high: f.high, fill: color(f.label),
  })), (v) => `${short(v)} events/s`);
}
function drawWaterfall() {
  const rows = [];
  for (const name of names)
    for (const f of DATA.figures.filter((g) => g.label === name && g.experiment === "waterfall"))
      rows.push({ label: `${name.slice(0, 14)}: ${f.name}`, value: f.value, low: f.value, high: f.value, fill: color(name) });
  bars("waterfall", "Where the latency goes", rows, time);
}
// A probe's mark says what came of it.
function mark(p, x, y, status, stroke) {
  const cx = p.sx(x), cy = p.sy(y), around = { stroke, "stroke-width": 2, fill: "none" };
  if (status === "void") el("path", { d: `M${cx - 4},${cy - 4}l8,8m0,-8l-8,8`, ...around }, p.svg);
  else if (status === "estimated") el("rect", { x: cx - 4, y: cy - 4, width: 8, height: 8, ...around }, p.svg);
  else el("circle", { cx, cy, r: 4.5, ...around, fill: status === "kept up" ? stroke : "var(--page)" }, p.svg);
}
function drawProbes() {
  const own = DATA.probes.filter((q) => q.experiment === "sustainable");
  const groups = names.map((name) => own.filter((q) => q.label === name)).filter((g) => g.length);
  const p = plot("probes", "Rates that were tried, in their order",
    { low: 0.5, high: most(groups.map((g) => g.length)) + 0.5, format: short, title: "probe" },
    { low: least(own.map((q) => q.rate)) / 1.3, high: most(own.map((q) => q.rate)) * 1.3, log: true, format: short });
  if (!p) return;
  for (const g of groups) {
    const stroke = color(g[0].label);
    path(p, g.map((q, i) => [i + 1, q.rate]), stroke, { "stroke-opacity": 0.35, "stroke-width": 1 });
    g.forEach((q, i) => mark(p, i + 1, q.rate, q.status, stroke));
  }
}
function drawRampQueue() {
  const own = DATA.series.filter((s) => s.experiment === "ramp").map((s) => ({
    s, points: s.queue.rate.map((rate, i) => [rate, s.queue.length[i] / rate]).filter(([rate]) => rate !== null),
  })).filter((x) => x.points.length);
  const all = own.flatMap((x) => x.points);
  const p = plot("ramp-queue", "Seconds of the load in the queue, by its rate",
    { low: least(all.map((q) => q[0])), high: most(all.map((q) => q[0])) * 1.1, log: true, format: short, title: "events per second" },
    { low: 0, high: all.length ? Math.max(0.1, most(all.map((q) => q[1]))) * 1.05 : -Infinity, format: (v) => `${+v.toPrecision(3)} s` });
  if (p) for (const { s, points } of own) path(p, points, color(s.name));
}
function drawByRate() {
  const own = DATA.figures.filter((f) => f.experiment === "latency by rate" && f.value !== null);
  const lines = [];
  for (const name of names) for (const what of ["p50", "p99"]) {
    const at = new Map(own.filter((f) => f.label === name).map((f) => [f.name, f.value]));
    const shares = [...at.keys()].filter((n) => n.startsWith(`${what} at `)).map((n) => n.split(" at ")[1]);
    const points = shares.map((s) => [at.get(`rate at ${s}`), at.get(`${what} at ${s}`)]).sort((a, b) => a[0] - b[0]);
    if (points.length) lines.push({ name, what, points });
  }
  const all = lines.flatMap((l) => l.points);
  const p = plot("by-rate", "Latency against rate",
    { low: least(all.map((q) => q[0])) / 1.2, high: most(all.map((q) => q[0])) * 1.2, log: true, format: short, title: "events per second" },
    { low: Math.max(1e-7, least(all.map((q) => q[1]))) / 1.2, high: most(all.map((q) => q[1])) * 1.2, log: true, format: time });
  if (!p) return;
  for (const { name, what, points } of lines) {
    path(p, points, color(name), what === "p50" ? { "stroke-dasharray": "5 4" } : {});
    for (const [x, y] of points) mark(p, x, y, "kept up", color(name));
  }
}
function drawSweep() {
  const own = DATA.figures.filter((f) => f.experiment === "sweep" && f.name.startsWith("p99 at") && f.value !== null);
  bars("sweep", "p99 by the value of a setting", own.map((f) => ({
    label: f.name.slice("p99 at ".length), value: f.value, low: f.low, high: f.high, fill: color(f.label),
  })), time);
}
function fillTable(groups) {
  const body = byId("latency-rows");
  body.replaceChildren();
  for (const g of groups) {
    const row = body.insertRow(), first = row.insertCell();
    const key = document.createElement("span");
    key.className = "key"; key.style.background = color(g.name);
    first.append(key, g.name);
    const mean = g.values.reduce((a, b) => a + b, 0) / g.values.length;
    for (const v of [...SHARES.map((q) => percentile(g.values, q)), g.values[g.values.length - 1], mean]) {
      const cell = row.insertCell();
      cell.className = "n"; cell.textContent = time(v);
    }
    const n = row.insertCell();
    n.className = "n"; n.textContent = g.values.length.toLocaleString("en");
  }
}
function draw(cut) {
  const groups = rested(cut);
  fillTable(groups); drawCdf(groups); drawHistogram(groups);
  drawSeries("series", "latency", cut, "Greatest latency over time");
  byId("cut-told").textContent = cut === null
    ? "by rule: " + DATA.series.filter((s) => s.experiment === "latency").map((s) => `${+s.cut.toFixed(1)} s`).join(", ")
    : `${cut.toFixed(1)} s`;
}
function drawAll() {
  const slider = byId("cut"), own = DATA.series.filter((s) => s.experiment === "latency" && s.due.length);
  slider.max = own.length ? least(own.map((s) => s.due[s.due.length - 1])) * 0.9 : 0;
  slider.step = slider.max / 200 || 1;
  slider.value = 0;
  drawRates(); drawWaterfall(); draw(null);
  drawQueues("queues", ["sustainable", "latency"], "Queue length over time");
  if (byId("probes")) { drawProbes(); drawRampQueue(); }
  if (byId("by-rate")) drawByRate();
  if (byId("sweep")) drawSweep();
  if (byId("spike-queue")) {
    drawQueues("spike-queue", ["spike", "fault"], "Queue length around the spike or fault");
    drawSeries("spike-series", DATA.series.some((s) => s.experiment === "spike") ? "spike" : "fault", null, "Greatest latency around the spike or fault");
  }
}
function start() {
  const slider = byId("cut"), chosen = byId("question");
  slider.addEventListener("input", () => draw(+slider.value));
  byId("by-rule").addEventListener("click", () => { slider.value = 0; draw(null); });
  byId("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  });
  const legend = byId("legend");
  for (const name of names) {
    const entry = document.createElement("span"), key = document.createElement("span");
    key.className = "key"; key.style.background = color(name);
    entry.append(key, name); legend.append(entry);
  }
  for (const question of WHOLE.questions) chosen.add(new Option(question, question));
  byId("asking").hidden = WHOLE.questions.length < 2;
  chosen.addEventListener("change", () => { ask(chosen.value); drawAll(); });
  ask(WHOLE.questions[0]); drawAll();
  document.documentElement.dataset.drawn = "yes";
}
start();
