"use strict";
// Asks for the data once a second and draws them.  Counters only grow, so that what a minute had is the difference of
// two looks; the timeline comes in bins that are kept for ten seconds.
const MINUTE = 60, SECONDS = 10, PERIOD = 1000;
const PARTS = ["weights", "plans", "activations", "inputs", "scratch"];
const $ = id => document.getElementById(id);
const looks = [];         // {at, models: Map of key -> model}, oldest first
const lanes = {cores: [], to: 0, bin: 5};
const open = new Set();   // tenants whose details are shown
const colours = new Map(); // key -> its number, in the order of appearance
let paused = false, failed = null, latest = null;
let token = null;         // of whoever looks, where the server wants one; kept nowhere else

// --- words and numbers
const keyOf = m => m.name + "/" + m.version;
function label(m, models) {
  return models.some(o => o.name === m.name && o.version !== m.version) ? `${m.name} ${m.version}` : m.name;
}
function ms(x) {
  if (x === null || !isFinite(x)) return "–";
  if (x >= 1000) return (x / 1000).toFixed(x >= 9950 ? 0 : 1) + " s";
  return (x >= 99.5 ? x.toFixed(0) : x >= 9.95 ? x.toFixed(1) : x.toFixed(2)) + " ms";
}
function bytes(x) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (x >= 1023.5 && u < 4) { x /= 1024; u++; }
  return [x >= 99.5 || u === 0 ? x.toFixed(0) : x.toFixed(1), units[u]];
}
const rate = x => x >= 99.5 ? x.toFixed(0) : x >= 0.05 ? x.toFixed(1) : "0";
// Never "100 %" of something that was missed, nor "95 %" of what is below it.
const percent = x => x >= 1 ? "100\u00a0%" : (Math.floor(x * 1000) / 10).toFixed(1) + "\u00a0%";
const part = x => (x < .0995 ? (x * 100).toFixed(1) : (x * 100).toFixed(0)) + "\u00a0%";
function list(words) {
  return words.length < 2 ? words.join("") : words.slice(0, -1).join(", ") + " and " + words[words.length - 1];
}
function span(seconds) {
  const d = Math.floor(seconds / 86400), h = Math.floor(seconds / 3600) % 24, m = Math.floor(seconds / 60) % 60;
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min` : `${Math.floor(seconds)} s`;
}

// Hues far from their neighbours, three lightnesses: enough for 64 tenants, and the legend says which is which.
const HUES = [222, 28, 158, 338, 48, 190, 272, 0, 95, 308, 205, 135];
function colour(key) {
  if (key === null) return "hsl(0 0% 55%)";
  if (!colours.has(key)) colours.set(key, colours.size);
  const i = colours.get(key), turn = Math.floor(i / HUES.length) % 3;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return `hsl(${HUES[i % HUES.length] + turn * 9} ${[62, 45, 72][turn]}% ${(dark ? [62, 74, 50] : [52, 36, 66])[turn]}%)`;
}
function node(name, attributes, ...children) {
  const svg = ["svg", "rect", "line", "path", "text", "title"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== null) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function chip(key) {
  const c = node("span", {class: "chip", "aria-hidden": "true"});
  c.style.background = colour(key);
  return c;
}

// --- what a minute had
function before(key, seconds) {
  const from = looks[looks.length - 1].at - seconds * 1000;
  const look = looks.find(l => l.at >= from) || looks[0];
  return {model: look.models.get(key), seconds: (looks[looks.length - 1].at - look.at) / 1000};
}
// Buckets since a minute ago; all of them at the first look, or where the server has begun anew.
function recent(m, what) {
  const old = before(keyOf(m), MINUTE).model;
  const now = m[what].buckets, then = old && old[what].count <= m[what].count ? old[what].buckets : [];
  const same = old && old[what].count === m[what].count && looks.length < 3;
  return now.map((n, i) => same ? n : n - (then[i] || 0));
}
function quantile(buckets, bounds, q) {
  const all = buckets.reduce((a, b) => a + b, 0);
  if (!all) return null;
  let rank = q * all;
  for (let i = 0; i < buckets.length; i++) {
    if (rank <= buckets[i] && buckets[i]) {
      const low = i ? bounds[i - 1] : 0, high = i < bounds.length ? bounds[i] : bounds[bounds.length - 1];
      return low + (high - low) * rank / buckets[i];
    }
    rank -= buckets[i];
  }
  return bounds[bounds.length - 1];
}
function perSecond(m) {
  const old = before(keyOf(m), 5);
  if (!old.model || old.seconds <= 0 || old.model.ended.all > m.ended.all) return m.minute.due / MINUTE;
  return (m.ended.all - old.model.ended.all) / old.seconds;
}

// --- first line
function verdict(d) {
  const below = d.models.filter(m => m.below), aimed = d.models.filter(m => m.target_ms > 0);
  const share = m => m.minute.in_time / m.minute.due;
  if (below.length) {
    const names = below.sort((a, b) => share(a) - share(b)).slice(0, 4)
      .map(m => `${label(m, d.models)} (${percent(share(m))}\u00a0in\u00a0time)`);
    const more = below.length > 4 ? [`${below.length - 4} more`] : [];
    return ["bad", `Below ${below.length > 1 ? "their targets" : "its target"}: ${list([...names, ...more])}`];
  }
  if (!d.models.length) return ["wait", "No model is loaded"];
  const asked = aimed.filter(m => m.minute.due);
  if (!asked.length) return ["wait", d.models.some(m => m.minute.due) ? "No tenant that was asked has a target"
    : "Nobody has asked anything in the last minute"];
  return ["good", asked.length === 1 ? `${label(asked[0], d.models)} is within its target`
    : `Every tenant is within its target: ${asked.length} of ${asked.length}`];
}
function say(state, text) {
  const h = $("verdict");
  if (h.textContent !== text) h.replaceChildren(...text.split(" ").flatMap(w => [node("span", {}, w), " "]).slice(0, -1));
  h.dataset.state = state;
  document.title = (state === "bad" ? "⚠ " : "") + "moire: " + text;
}
function note(d) {
  const parts = [];
  if (d.loading.length) parts.push(`Loading now: ${list(d.loading)}.`);
  for (const m of d.models) if (m.state === "UNAVAILABLE") parts.push(`${label(m, d.models)} cannot be served: ${m.reason}`);
  $("note").hidden = !parts.length;
  $("note").textContent = parts.slice(0, 4).join(" ");
}

// --- numbers of the server
function tiles(d) {
  const s = d.server, all = d.models.reduce((sum, m) => sum + perSecond(m), 0);
  const [size, unit] = bytes(Object.values(s.memory).reduce((a, b) => a + b, 0));
  const cells = [["Cores at work", s.cores_held, `of ${s.cores}`], ["Requests a second", rate(all), ""],
    ["Waiting", s.waiting, s.paused ? `${s.paused} paused` : ""], ["Pressure on caches", (s.pressure * 100).toFixed(0), "%"],
    ["Pace of blocks", s.pace.toFixed(2), "× usual"], ["Memory", size, unit]];
  $("tiles").replaceChildren(...cells.map(([name, value, small]) =>
    node("div", {}, node("dt", {}, name), node("dd", {}, String(value), small ? node("small", {}, small) : ""))));
  $("about").textContent = `moire ${d.version}, up ${span(s.uptime_s)}`;
}

// --- cores
function keep(d) {
  const t = d.timeline, keys = d.models.map(keyOf), oldest = t.to - SECONDS * 1000 / t.bin_ms;
  if (t.to < lanes.to) lanes.cores = [];
  lanes.to = t.to;
  lanes.bin = t.bin_ms;
  t.cores.forEach((runs, core) => {
    const kept = (lanes.cores[core] || []).filter(r => r.end > oldest);
    for (const [at, n, model, eighths] of runs)
      kept.push({start: t.from + at, end: t.from + at + n, key: model < 0 ? null : keys[model], share: eighths / 8});
    lanes.cores[core] = kept;
  });
}
function drawLanes() {
  const canvas = $("lanes"), n = lanes.cores.length, many = n > 16;
  const height = many ? 11 : n > 4 ? 20 : 42, gap = many ? 2 : 5, foot = 20, side = n > 1 ? 26 : 0;
  const width = canvas.clientWidth, tall = n * (height + gap) - gap + foot, ratio = devicePixelRatio || 1;
  canvas.style.height = tall + "px";
  canvas.width = width * ratio;
  canvas.height = tall * ratio;
  const style = getComputedStyle(document.documentElement), c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  const bins = SECONDS * 1000 / lanes.bin, scale = (width - side) / bins, first = lanes.to - bins;
  lanes.cores.forEach((runs, core) => {
    const y = core * (height + gap);
    c.fillStyle = style.getPropertyValue("--lane");
    c.beginPath();
    c.roundRect(side, y, width - side, height, 3);
    c.fill();
    if (!many || core % 4 === 0) {
      c.fillStyle = style.getPropertyValue("--faint");
      c.fillText(String(core), 0, y + height / 2 + 4);
    }
    for (const r of runs) {
      const x = side + Math.max(0, r.start - first) * scale, h = Math.max(2, height * r.share);
      c.fillStyle = colour(r.key);
      c.fillRect(x, y + height - h, Math.max(.6, (r.end - Math.max(r.start, first)) * scale - (r.end - r.start > 2 ? .35 : 0)), h);
    }
  });
  c.fillStyle = style.getPropertyValue("--faint");
  for (let s = SECONDS; s >= 0; s -= width < 500 ? 5 : 2) {
    const text = s ? `${s} s ago` : "now", w = c.measureText(text).width;
    c.fillText(text, Math.min(width - w, Math.max(side, side + (1 - s / SECONDS) * (width - side) - w / 2)), tall - 3);
  }
}
function drawLegend(d) {
  const sums = new Map(), all = lanes.cores.length * SECONDS * 1000 / lanes.bin;
  for (const runs of lanes.cores)
    for (const r of runs) sums.set(r.key, (sums.get(r.key) || 0) + (r.end - r.start) * r.share);
  const names = new Map(d.models.map(m => [keyOf(m), label(m, d.models)]));
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  const items = sorted.slice(0, 16).map(([key, sum]) =>
    node("li", {}, chip(key), names.get(key) || "unloaded", node("b", {}, part(sum / all))));
  const rest = sorted.slice(16).reduce((a, r) => a + r[1], 0);
  if (rest) items.push(node("li", {}, `${sorted.length - 16} others`, node("b", {}, part(rest / all))));
  if (!items.length) items.push(node("li", {}, looks.length < 2 ? "Begins with this page" : "No core has worked"));
  $("legend").replaceChildren(...items);
  $("cores-note").textContent = `the last ten seconds, ${lanes.cores.length} cores`;
}

// --- tenants
// Bars of equal width for buckets of a geometric scale; those behind the target in another colour.
function histogram(buckets, bounds, target, W, h, axis) {
  const shown = [0.2, 5000].map(b => bounds.findIndex(x => x >= b)), n = shown[1] - shown[0] + 1;
  const cells = new Array(n).fill(0);
  buckets.forEach((v, i) => { cells[Math.min(n - 1, Math.max(0, i - shown[0]))] += v; });
  const top = Math.max(1, ...cells), w = W / n, foot = axis ? 14 : 0, H = h - foot;
  const place = x => {
    const i = bounds.findIndex(b => b >= x), low = i > 0 ? bounds[i - 1] : 0;
    return ((i < 0 ? bounds.length : i + (x - low) / (bounds[i] - low) - 1) - shown[0] + 1) * w;
  };
  const svg = node("svg", {class: "hist", viewBox: `0 0 ${W} ${h}`, preserveAspectRatio: axis ? "xMinYMid" : "none", role: "img"});
  svg.append(node("path", {d: `M0 ${H}H${W}`}));
  cells.forEach((v, i) => {
    const bar = v ? Math.max(1.5, H * Math.sqrt(v / top)) : 0, late = target && bounds[i + shown[0]] > target * 1.001;
    if (bar) svg.append(node("rect", {x: (i * w + .3).toFixed(2), width: (w - .6).toFixed(2), y: (H - bar).toFixed(2), height: bar.toFixed(2), class: late ? "late" : null}));
  });
  if (target) svg.append(node("line", {x1: place(target), x2: place(target), y1: -2, y2: H + 2}));
  if (axis) for (const [x, t] of [[1, "1 ms"], [10, "10"], [100, "100"], [1000, "1 s"]])
    svg.append(node("text", {x: place(x), y: h - 2, "text-anchor": "middle"}, t));
  return svg;
}
function details(m, d) {
  const e = m.ended, r = m.memory, own = bytes(r.weights + r.plans + r.inputs);
  const built = m.layers - m.compiled_layers - m.reference_layers;
  const chosen = m.version_runs.map((n, v) => n ? `${v}: ${n}` : "").filter(Boolean);
  const facts = node("div", {class: "facts"});
  for (const [what, name] of [["request", "From request to answer"], ["queue", "Waiting"], ["compute", "Computing"]]) {
    const b = recent(m, what);
    facts.append(node("div", {}, node("h3", {}, `${name}: p50 ${ms(quantile(b, d.bounds_ms, .5))}, p99 ${ms(quantile(b, d.bounds_ms, .99))}`),
      histogram(b, d.bounds_ms, what === "request" ? m.target_ms : 0, 300, 74, true)));
  }
  facts.append(node("div", {}, node("h3", {}, "Since the start"), node("p", {},
    `${e.ok} answered, ${m.total.in_time} of ${m.total.due} in time; turned away: ${e.queue_full} for a full queue, ` +
    `${e.expired} past their deadline, ${e.late} hopeless; ${e.cancelled} cancelled by clients`)));
  facts.append(node("div", {}, node("h3", {}, "Kernels and memory"), node("p", {},
    `${m.layers} layers: ${m.compiled_layers} compiled, ${built} built in, ${m.reference_layers} slow. ` +
    (chosen.length ? `Versions chosen: ${chosen.join(", ")}. ` : "") +
    `${own.join(" ")} of its own, ${m.shapes} ${m.shapes === 1 ? "shape" : "shapes"}; ${m.class}, priority ${m.priority}`)));
  return node("tr", {class: "more"}, node("td", {colspan: 9}, facts));
}
function row(m, d) {
  const key = keyOf(m), share = m.minute.due ? m.minute.in_time / m.minute.due : null, name = label(m, d.models);
  const buckets = recent(m, "request"), fill = node("i");
  fill.style.width = (share === null ? 0 : share * 100) + "%";
  const button = node("button", {type: "button", "aria-expanded": open.has(key), "data-key": key, title: name},
    chip(key), node("span", {class: "t"}, name));
  const small = m.state !== "READY" ? m.state.toLowerCase() : m.class === "best-effort" ? "best effort" : "";
  const cell = (text, what) => node("td", {class: "n", "data-label": what}, text);
  const p50 = quantile(buckets, d.bounds_ms, .5), p99 = quantile(buckets, d.bounds_ms, .99);
  const shape = histogram(buckets, d.bounds_ms, m.target_ms, 150, 30, false);
  shape.append(node("title", {}, `latency of ${name}: half within ${ms(p50)}, 99 of 100 within ${ms(p99)}`));
  const text = share === null ? "–" : percent(share);
  const tr = node("tr", {class: m.below ? "below" : share === null ? "idle" : ""}, node("td", {class: "name"}, button, node("small", {}, small)),
    node("td", {class: "in"}, node("div", {class: "share"}, node("span", {class: "bar", "aria-hidden": "true"}, fill), node("b", {}, text))),
    cell(m.target_ms ? ms(m.target_ms) : "none", "Target"), node("td", {class: "shape"}, shape),
    cell(ms(p50), "p50"), cell(ms(p99), "p99"), cell(rate(perSecond(m)), "Per second"), cell(String(m.waiting), "Waiting"), cell(String(m.cores), "Cores"));
  return open.has(key) ? [tr, details(m, d)] : [tr];
}
function drawRows(d) {
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
  const share = m => m.below ? m.minute.in_time / m.minute.due : 1; // those below first, the worst at the top
  const order = [...d.models].sort((a, b) => b.below - a.below || share(a) - share(b));
  $("rows").replaceChildren(...order.flatMap(m => row(m, d)));
  if (focused) for (const b of $("rows").querySelectorAll("button")) if (b.dataset.key === focused) b.focus({preventScroll: true});
}

// --- memory
function drawMemory(d) {
  const m = d.server.memory, all = PARTS.reduce((sum, p) => sum + m[p], 0), tint = [48, 58, 68, 77, 85];
  const paint = (e, i) => { e.style.background = `hsl(222 32% ${tint[i]}%)`; return e; };
  $("stack").replaceChildren(...PARTS.map((p, i) => { const e = paint(node("i"), i); e.style.flex = m[p] + " 0 0"; return e; }));
  $("parts").replaceChildren(...PARTS.map((p, i) =>
    node("li", {}, paint(node("span", {class: "chip"}), i), p, node("b", {}, bytes(m[p]).join(" ")))));
  $("memory-note").textContent = `${bytes(all).join(" ")}, mapped files included`;
}

// --- the loop
function draw() {
  const d = latest;
  if (!d) return;
  say(...verdict(d));
  note(d); tiles(d); drawLanes(); drawLegend(d); drawRows(d); drawMemory(d);
}
function take(d) {
  const uptime = latest ? latest.server.uptime_s : 0;
  if (d.server.uptime_s < uptime) { looks.length = 0; lanes.cores = []; }
  for (const m of d.models) colour(keyOf(m));
  looks.push({at: performance.now(), models: new Map(d.models.map(m => [keyOf(m), m]))});
  while (looks.length > MINUTE + 2) looks.shift();
  latest = d;
  keep(d);
  draw();
}
// The server answers nobody without a token, or not this one: it is asked for.
function ask(status) {
  say("wait", status === 403 ? "This token has no right to metrics" : token ? "The server does not know this token"
    : "The server wants a token");
  token = null;
  if ($("door").hidden) {
    $("door").hidden = false;
    $("token").focus();
  }
}
const shut = () => !$("door").hidden && token === null;
async function look() {
  if (!paused && !document.hidden && !shut()) {
    try {
      const headers = token === null ? {} : {Authorization: "Bearer " + token};
      const answer = await fetch("/v2/moire/live?since=" + lanes.to, {cache: "no-store", headers});
      if (answer.ok) {
        take(await answer.json());
        $("door").hidden = true;
      } else if (answer.status === 401 || answer.status === 403) {
        ask(answer.status);
      } else {
        throw new Error(`status ${answer.status}`);
      }
      failed = null;
    } catch (e) {
      failed = failed || new Date();
      say("bad", `No answer since ${failed.toLocaleTimeString()} (${e.message}); what is below is old`);
    }
  }
  setTimeout(look, PERIOD);
}
$("door").addEventListener("submit", e => {
  e.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
});
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  $("pause").textContent = paused ? "Go on" : "Pause";
});
$("rows").addEventListener("click", e => {
  const b = e.target.closest("button[data-key]");
  if (!b) return;
  if (!open.delete(b.dataset.key)) open.add(b.dataset.key);
  drawRows(latest);
});
addEventListener("resize", () => { if (latest) drawLanes(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
for (const [id, x] of [["rings-a", 26], ["rings-b", 38]])
  for (let r = 2; r < 20; r += 2.6) {
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    for (const [k, v] of [["cx", x], ["cy", 20], ["r", r]]) ring.setAttribute(k, v);
    $(id).append(ring);
  }
look();
