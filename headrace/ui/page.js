"use strict";
// Everything that comes from the pipeline is put in as text, never as markup.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const FIRST = -9223372036854775000, DAY = 86400e6, SHOWN = 120;
let run = null, epochs = [], picked = null, failures = 0, drawn = "";

function make(tag, text, className, parent) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  if (className) node.className = className;
  if (parent) parent.append(node);
  return node;
}
function draw(tag, attributes, parent, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
const sum = (list) => list.reduce((a, b) => a + b, 0);
function number(n) {
  if (n >= 1e9) return (n / 1e9).toFixed(1) + " G";
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e4) return (n / 1e3).toFixed(1) + " K";
  return String(Math.round(n));
}
const size = (n) => n >= 1e9 ? (n / 1e9).toFixed(1) + " GB" : n >= 1e6 ? (n / 1e6).toFixed(1) + " MB"
  : n >= 1e3 ? Math.round(n / 1e3) + " KB" : n + " B";
function span(s) {
  if (s < 0) return "-" + span(-s);
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return Math.floor(s / 60) + ":" + String(Math.floor(s % 60)).padStart(2, "0") + " min";
  if (s < 172800) return Math.floor(s / 3600) + ":" + String(Math.floor(s / 60) % 60).padStart(2, "0") + " h";
  return Math.round(s / 86400) + " d";
}
function moment(micros) {
  if (micros === undefined || micros === null || micros <= FIRST + DAY) return "";
  if (micros >= -FIRST - 2 * DAY) return "at the end";
  const date = new Date(micros / 1000);
  return isNaN(date) ? "far away" : date.toISOString().slice(0, 19).replace("T", " ");
}
function lag(micros, now) {
  const text = moment(micros);
  return !text || text === "at the end" || text === "far away" ? "" : span((now - micros) / 1e6);
}
function parts(e) {
  // The longest task of each superstep is what the epoch waits for; the rest of the tasks' time is
  // exchange and scheduling.
  const longest = new Map();
  for (const t of e.shards) longest.set(t.superstep, Math.max(longest.get(t.superstep) || 0, t.seconds));
  const found = [...longest].sort((a, b) => a[0] - b[0]).map(([n, s]) => ["superstep " + n, s, "var(--p" + n % 3 + ")"]);
  const tasks = sum(found.map((p) => p[1]));
  found.push(["exchange and scheduling", Math.max(0, e.tasks - tasks), "var(--px)"]);
  found.push(["sinks", sum(Object.values(e.sinks)), "var(--ps)"]);
  found.push(["commit", e.commit, "var(--pc)"]);
  if (e.waited) found.push(["wait for publishing", e.waited, "var(--pw)"]);
  return found;
}
function published(e) {
  const sinks = Object.entries(e.published);
  return sinks.length ? "; publishing the epoch before took " + sinks.map(([name, s]) => name.split("/")[0] + " " + span(s)).join(", ") : "";
}
function show() {
  if (!run) return;
  const e = picked === null ? epochs[epochs.length - 1] : epochs.find((x) => x.epoch === picked);
  document.title = run.name + " · headrace";
  $("name").textContent = run.name;
  $("live").hidden = picked === null;
  status(e);
  wrong();
  timeline();
  if (!e) return;
  graph(e); steps(e); shards(e); keys(e); sources(e); samples(e);
}
function status(e) {
  const box = $("status");
  box.replaceChildren();
  make("b", run.state === "RUNNING" && failures > 2 ? "no answer" : run.state, "", box);
  const facts = [run.kind === "checkpoint" ? "a checkpoint" : "", run.shards + " shards"];
  if (e) {
    facts.push("epoch " + e.epoch);
    if (e.seconds) facts.push(span(e.seconds));
    const marks = Object.values(e.watermarks).map((m) => m[1]);
    const least = marks.length ? Math.min(...marks) : null;
    if (moment(least)) facts.push("watermark " + moment(least));
    if (lag(least, e.now)) facts.push("lag " + lag(least, e.now));
    facts.push("state " + size(sum(e.shards.map((t) => t.state_bytes))));
  } else facts.push("before the first epoch");
  if (run.retries) facts.push(run.retries + " retries");
  if (run.failure) facts.push(run.failure);
  box.append(" · " + facts.filter(Boolean).join(" · "));
}
function wrong() {
  const box = $("findings");
  const found = run.findings;
  box.className = found.length ? "ill" : "";
  box.replaceChildren();
  if (!found.length) {
    make("p", epochs.length ? "Nothing is wrong that the last epochs would show." : "Waiting for the first epoch.", "", box);
    return;
  }
  for (const f of found) {
    const one = make("article", null, "", box);
    make("p", f.sentence, "say", one);
    make("p", "Seen in epoch " + f.epoch + ": " + f.evidence + ".", "why", one);
    make("p", "What helps: " + f.remedy + ".", "why", one);
  }
}
function timeline() {
  const shown = epochs.slice(-SHOWN), box = $("timeline");
  // The first epoch starts workers: one bar may be cut, so that the others can be compared.
  const all = shown.map((e) => sum(parts(e).map((p) => p[1]))).sort((a, b) => b - a);
  const top = Math.max(1e-9, all.length > 4 ? Math.min(all[0], 1.5 * all[1]) : all[0] || 0);
  const legend = $("parts");
  legend.replaceChildren();
  const names = new Map();
  for (const e of [...shown].sort((a, b) => b.shards.length - a.shards.length)) {
    for (const [name, , colour] of parts(e)) if (!names.has(name)) names.set(name, colour);
  }
  for (const [name, colour] of names) {
    const item = make("span", null, "", legend);
    make("i", "", "", item).style.background = colour;
    item.append(name);
  }
  box.replaceChildren();
  for (const e of shown) {
    const bar = make("button", null, "", box);
    bar.type = "button";
    bar.title = "epoch " + e.epoch + ": " + span(e.seconds);
    bar.setAttribute("aria-label", bar.title);
    if (picked === e.epoch) bar.classList.add("on");
    if (e.retries.length) bar.classList.add("again");
    for (const [, seconds, colour] of parts(e).reverse()) {
      const part = make("span", null, "", bar);
      part.style.height = Math.max(0, 100 * seconds / top) + "%";
      part.style.background = colour;
    }
    bar.onclick = () => { picked = picked === e.epoch ? null : e.epoch; show(); };
  }
  const e = shown.find((x) => x.epoch === picked) || shown[shown.length - 1];
  $("picked").textContent = !e ? "" : !e.seconds
    ? "Epoch " + e.epoch + " of " + moment(e.now) + "; a manifest does not say how long its parts took. Click a bar to look at its epoch."
    : "Epoch " + e.epoch + ", " + moment(e.began) + ", " + span(e.seconds) + ": "
      + parts(e).map(([name, s]) => name + " " + span(s)).join(", ") + published(e) + ". Click a bar to look at its epoch.";
}
function graph(e) {
  const svg = $("graph"), bad = new Set(run.findings.map((f) => f.subject));
  const look = JSON.stringify([run.graph, e.epoch, [...bad]]);
  if (look === drawn) return;
  drawn = look;
  svg.replaceChildren();
  const columns = new Map();
  for (const s of run.graph.stages) {
    if (!columns.has(s.superstep)) columns.set(s.superstep, []);
    columns.get(s.superstep).push(s);
  }
  const order = [...columns.keys()].sort((a, b) => a - b), wide = 210, gap = 130, place = new Map();
  let high = 0;
  order.forEach((n, i) => {
    let y = 34;
    for (const s of columns.get(n)) {
      const h = 14 + 16 * Math.max(1, Math.min(s.steps.length, 9));
      place.set(s.number, { x: 12 + i * (wide + gap), y, h });
      y += h + 18;
    }
    high = Math.max(high, y);
  });
  const width = order.length * (wide + gap) - gap + 24;
  for (const [name, value] of [["width", width], ["height", high], ["viewBox", "0 0 " + width + " " + high]]) svg.setAttribute(name, value);
  order.forEach((n, i) => {
    const x = 4 + i * (wide + gap);
    draw("rect", { x, y: 0, width: wide + 16, height: high, rx: 8, class: "band" }, svg);
    const tasks = e.shards.filter((t) => t.superstep === n);
    const longest = tasks.length && e.seconds ? ", longest " + span(Math.max(...tasks.map((t) => t.seconds))) : "";
    draw("text", { x: x + 8, y: 18, class: "head" }, svg, "superstep " + n + ": " + tasks.length + " shards" + longest);
  });
  for (const c of run.graph.channels) {
    for (const a of c.sources) for (const b of c.targets) {
      const from = place.get(a), to = place.get(b);
      if (!from || !to) continue;
      const x1 = from.x + wide, y1 = from.y + from.h / 2, x2 = to.x, y2 = to.y + to.h / 2;
      const near = x2 <= x1, mid = (x1 + x2) / 2;
      draw("path", { class: c.kind === "local" ? "local" : "way-line",
        d: near ? `M${from.x + 20},${from.y + from.h} L${to.x + 20},${to.y}` : `M${x1},${y1} C${mid},${y1} ${mid},${y2} ${x2},${y2}` }, svg);
      if (near) continue;
      const came = sum(e.arrived[c.number] || []);
      const label = draw("text", { x: mid, y: (y1 + y2) / 2 - 5, "text-anchor": "middle", class: "way" }, svg, c.title);
      draw("title", {}, label, (c.name ? c.name + ": " : "") + c.reason);
      if (came) draw("text", { x: mid, y: (y1 + y2) / 2 + 11, "text-anchor": "middle", class: "way" }, svg, number(came) + " came");
    }
  }
  for (const s of run.graph.stages) {
    const at = place.get(s.number);
    const ill = bad.has(s.name) || s.steps.some((n) => bad.has(n));
    const box = draw("rect", { x: at.x, y: at.y, width: wide, height: at.h, rx: 6, class: ill ? "stage ill" : "stage" }, svg);
    draw("title", {}, box, s.steps.join(", ") + (s.cells.length ? "; keeps " + s.cells.join(", ") : ""));
    const names = s.steps.length ? s.steps : [s.name];
    names.slice(0, 9).forEach((name, i) => draw("text", { x: at.x + 9, y: at.y + 19 + 16 * i }, svg,
      i === 8 && names.length > 9 ? "and " + (names.length - 8) + " more" : name.length > 29 ? name.slice(0, 28) + "…" : name));
  }
}
function rows(table, head, body) {
  table.replaceChildren();
  const top = make("tr", null, "", make("thead", null, "", table));
  for (const name of head) make("th", name, "", top);
  const rest = make("tbody", null, "", table);
  for (const cells of body) {
    const row = make("tr", null, "", rest);
    for (const cell of cells) {
      const bad = Array.isArray(cell);
      make("td", bad ? cell[0] : cell, bad ? "bad" : "", row);
    }
  }
}
function steps(e) {
  const past = picked === null ? epochs.slice(-8) : [e];
  const seconds = past.length > 1 ? Math.max(0.001, (e.began - past[0].began) / 1e6 + e.seconds) : Math.max(0.001, e.seconds);
  const stageOf = new Map();
  for (const s of run.graph.stages) for (const name of s.steps) if (!stageOf.has(name) || s.superstep) stageOf.set(name, s);
  const body = [], held = new Set();
  for (const [name, s] of stageOf) {
    const into = sum(past.map((p) => (p.steps[name] || {}).into || 0)), out = sum(past.map((p) => (p.steps[name] || {}).out || 0));
    const busy = sum(past.map((p) => (p.steps[name] || {}).busy || 0));
    const mark = e.watermarks[s.number], first = s.steps[0] === name && (s.cells.length || !run.graph.channels.some((c) => c.sources.length));
    const bytes = first && !held.has(s.superstep) ? sum(e.shards.filter((t) => t.superstep === s.superstep).map((t) => t.state_bytes)) : 0;
    if (bytes) held.add(s.superstep);
    const late = s.steps[0] === name ? sum(epochs.map((p) => p.late[s.number] || 0)) : 0;
    const waits = s.steps[0] === name ? e.waiting[s.number] || 0 : 0;
    const measured = run.kind === "run";
    body.push([name, measured && into ? number(into / seconds) + "/s" : "", measured && out ? number(out / seconds) + "/s" : "",
      busy ? Math.round(100 * busy / seconds) + " %" : "", mark ? moment(mark[0]) : "", mark ? lag(mark[0], e.now) : "",
      mark ? lag(mark[1], e.now) : "", bytes ? size(bytes) : "", waits ? [number(waits)] : "", late ? [number(late)] : ""]);
  }
  rows($("steps"), ["step", "in", "out", "busy", "watermark in", "lag in", "lag out", "state", "waiting", "late"], body);
}
function shards(e) {
  const box = $("shards");
  box.replaceChildren();
  const grid = make("div", null, "bars", box), top = Math.max(1e-9, ...e.shards.map((t) => t.seconds || t.state_bytes));
  for (const n of [...new Set(e.shards.map((t) => t.superstep))].sort((a, b) => a - b)) {
    make("h3", "superstep " + n, "", grid);
    for (const t of e.shards.filter((t) => t.superstep === n)) {
      make("span", "shard " + t.shard, "", grid).title = t.host;
      make("div", "", "bar", make("div", null, "", grid)).style.width = 100 * (t.seconds || t.state_bytes) / top + "%";
      make("span", (t.seconds ? span(t.seconds) + " · " : "") + number(t.state_rows) + " rows", "", grid);
    }
  }
}
function keys(e) {
  const body = [];
  const named = (n) => {
    const c = run.graph.channels.find((c) => String(c.number) === String(n));
    const target = c && run.graph.stages.find((s) => c.targets.includes(s.number));
    return (c && c.name) || (target && target.name) || "channel " + n;
  };
  const past = picked === null ? epochs.slice(-3) : [e];
  for (const n of new Set(past.flatMap((p) => Object.keys(p.hot)))) {
    const total = sum(past.map((p) => (p.hot[n] || { elements: 0 }).elements)), found = new Map();
    for (const p of past) for (const [key, count] of Object.entries((p.hot[n] || { keys: {} }).keys)) found.set(key, (found.get(key) || 0) + count);
    for (const [key, count] of [...found].sort((a, b) => b[1] - a[1]).slice(0, 5))
      body.push(["key " + key, named(n), Math.round(100 * count / total) + " %"]);
  }
  for (const [n, counts] of Object.entries(e.arrived)) {
    const all = sum(counts);
    if (all) body.push(["busiest shard " + counts.indexOf(Math.max(...counts)), named(n), Math.round(100 * Math.max(...counts) / all) + " % of " + number(all)]);
  }
  rows($("keys"), ["what", "exchange", "share"], body.length ? body : [["nothing went by key", "", ""]]);
}
function sources(e) {
  const body = [];
  for (const [name, s] of Object.entries(e.sources)) {
    const found = Object.entries(s.partitions);
    body.push([name, found.length + " partitions", moment(s.watermark), lag(s.watermark, e.now), s.ended ? "ended" : ""]);
    if (found.length > 1) for (const [part, [highest, heard]] of found.sort((a, b) => a[1][0] - b[1][0]).slice(0, 12))
      body.push(["· partition " + part, "", moment(highest) || "nothing yet", lag(highest, e.now), span((e.now - heard) / 1e6) + " silent"]);
  }
  rows($("sources"), ["source", "", "watermark", "lag", ""], body.length ? body : [["none", "", "", "", ""]]);
}
function samples(e) {
  const box = $("samples");
  box.replaceChildren();
  if (!run.samples) {
    make("p", "Elements and what exceptions said may be private; --ui_samples shows some of them.", "hint", box);
    return;
  }
  const from = picked === null ? [...epochs].reverse().find((p) => Object.keys(p.samples).length) || e : e;
  for (const [n, shown] of Object.entries(from.samples)) {
    const stage = run.graph.stages.find((s) => String(s.number) === n);
    make("p", "came to " + (stage ? stage.name : "stage " + n), "hint", box);
    for (const text of shown) make("pre", text, "", box);
  }
  const tries = [...epochs.flatMap((p) => p.retries), ...run.failing].slice(-5);
  for (const t of tries) {
    make("p", "exception at epoch " + t.epoch + (t.step ? " in " + t.step : ""), "hint", box);
    make("pre", t.error + ": " + t.text, "", box);
  }
}
async function look() {
  try {
    const last = epochs.length ? epochs[epochs.length - 1].epoch : -1;
    const answer = await fetch("api/state?since=" + last);
    if (!answer.ok) throw new Error(String(answer.status));
    run = await answer.json();
    epochs = [...epochs, ...run.epochs].slice(-600);
    failures = 0;
  } catch (problem) { failures += 1; }
  show();
  document.documentElement.dataset.wide = String(document.documentElement.scrollWidth > innerWidth);
  document.documentElement.dataset.looks = String(Number(document.documentElement.dataset.looks || 0) + 1);
  // A page that nobody sees asks seldom; one whose run has ended asks no more.
  if (!run || run.state === "RUNNING") setTimeout(look, document.hidden ? 10000 : failures ? 3000 : 1000);
}
$("live").onclick = () => { picked = null; show(); };
$("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
};
look();
