// The profile page: figures, tables and the program; what is chosen stands in the address, so that a view can be shared.

const DATA = JSON.parse(document.getElementById("data").textContent);
const PROFILES = DATA.profiles;
const KINDS = {
  kernel: "kernels", host_call: "kernels in Python", dtoh: "copies to the host", htod: "copies to the device", sync: "waits",
  shape_func: "shape functions", launch: "launches", alloc: "allocations",
};
const state = {theme: "auto", view: "operators", side: 0, hide: new Set(), from: 0, to: 1};

// ---- words and elements ---------------------------------------------------------------------------------------------

function range_text(low, high) {
  const [a, b] = [time_text(low).split(" "), time_text(high).split(" ")];
  return a[1] === b[1] ? `${a[0]} to ${b.join(" ")}` : `${a.join(" ")} to ${b.join(" ")}`;
}
function rate(n) { return n >= 100 ? n.toFixed(0) : String(+n.toPrecision(3)); }
const runs = profile => profile.run_ns.length;
function place(profile, site) {
  if (site.source < 0) return "";
  return profile.sources.length > 1 ? `${profile.sources[site.source].name.split("/").pop()}:${site.line}` : String(site.line);
}

// ---- figures ----------------------------------------------------------------------------------------------------------

function totals(profile, ...kinds) {
  const found = profile.sites.filter(s => kinds.includes(s.kind)), n = runs(profile);
  return {ns: sum(found, s => s.total_ns) / n, calls: sum(found, s => s.calls) / n, bytes: sum(found, s => s.nbytes) / n};
}

const TILES = [
  ["Run, median of all", p => [time_text(p.median_ns), `of ${runs(p)}: ${range_text(Math.min(...p.run_ns), Math.max(...p.run_ns))}`,
    `p90 ${time_text(p.summary.p90_ns)}, p99 ${time_text(p.summary.p99_ns)}`,
    ...(PROFILES.length > 1 ? [] : [`${rate(p.summary.runs_per_second)} runs/s`])]],
  ["Kernels", p => { const t = totals(p, "kernel", "host_call"); return [time_text(t.ns), `${count(t.calls)} launches`]; }],
  ["Copies to the host", p => { const t = totals(p, "dtoh"); return [count(t.calls), t.calls ? bytes(t.bytes) : "none"]; }],
  ["Copies to the device", p => { const t = totals(p, "htod"); return [count(t.calls), t.calls ? bytes(t.bytes) : "none"]; }],
  ["Waits", p => { const t = totals(p, "sync"); return [count(t.calls), t.calls ? time_text(t.ns) : "none"]; }],
  ["Shape functions", p => { const t = totals(p, "shape_func"); return [count(t.calls), t.calls ? time_text(t.ns) : "none"]; }],
  ["Peak memory", p => [bytes(p.counters.peak_bytes ?? 0), `${count(p.counters.allocs ?? 0)} allocations`]],
];

function tiles() {
  const many = PROFILES.length > 1;
  return TILES.map(([name, figure]) => {
    const tile = element("div", {class: "tile"}, element("div", {class: "name"}, name));
    PROFILES.forEach((profile, i) => {
      const [value, ...notes] = figure(profile), mark = many ? element("span", {class: "side", style: `color: var(--side${i % 4})`}, profile.name) : null;
      tile.append(element("div", {class: many ? "value small" : "value"}, mark, value), ...notes.map(note => element("div", {class: "note"}, note)));
    });
    if (name === "Run, median of all" && !many) tile.append(strip(PROFILES[0]));
    return tile;
  });
}

// A tick for each run between the fastest and the slowest.
function strip(profile) {
  const low = Math.min(...profile.run_ns), high = Math.max(...profile.run_ns), x = t => 2 + 96 * (t - low) / (high - low || 1);
  const line = (t, style) => svg("line", {x1: x(t), x2: x(t), y1: 1, y2: 13, style, "vector-effect": "non-scaling-stroke"});
  const ticks = profile.run_ns.map(t => line(t, "stroke: var(--muted); opacity: 0.55"));
  return svg("svg", {viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true"}, ...ticks, line(profile.median_ns, "stroke: var(--accent); stroke-width: 2"));
}

// ---- tables -----------------------------------------------------------------------------------------------------------

// columns: [title, cell(row) -> text or element, sort key(row) or null for words, extra classes]
function table(columns, rows, sorted = null) {
  const body = element("tbody"), heads = [];
  const fill = list => body.replaceChildren(...list.map(row => element("tr", {class: row.mark || null}, ...columns.map(([, cell, key, classes]) =>
    element("td", {class: `${key ? "" : "left"} ${classes ?? ""}`}, cell(row))))));
  columns.forEach(([title, cell, key, classes], i) => {
    const head = element("th", {class: key && classes !== "left" ? null : "left", scope: "col", onclick: () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(h => h.removeAttribute("aria-sort")); head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const by = key ?? cell, sign = down ? -1 : 1;
      fill([...rows].sort((a, b) => { const x = by(a), y = by(b); return sign * (x < y ? -1 : x > y ? 1 : 0); }));
    }}, title);
    if (i === sorted) head.setAttribute("aria-sort", "descending");
    heads.push(head);
  });
  fill(rows);
  return element("div", {class: "scroll"}, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body));
}

function lineLink(profile, site) {
  const text = place(profile, site);
  return text ? element("a", {href: "#", onclick: e => { e.preventDefault(); toLine(profile, site); }}, text) : "";
}
const why = site => site.reason;
const nothing = text => element("p", {class: "muted"}, text);

function operatorsView(profile) {
  const groups = new Map();
  for (const s of profile.sites.filter(s => s.kind === "kernel" || s.kind === "host_call")) {
    const key = s.op + " " + s.name;
    groups.set(key, [...(groups.get(key) ?? []), s]);
  }
  const n = runs(profile);
  const rows = [...groups.values()].map(found => {
    const longest = found.reduce((a, b) => b.max_ns > a.max_ns ? b : a);
    return {first: found[0], ns: sum(found, s => s.total_ns) / n, calls: sum(found, s => s.calls) / n, max: longest.max_ns,
      asked: sum(found, s => s.asked_ns) / n, bytes: sum(found, s => s.nbytes) / n, types: longest.types,
      others: new Set(found.map(s => s.types)).size > 1 || longest.n_types > 1, sites: found};
  }).sort((a, b) => b.ns - a.ns);
  const total = sum(rows, r => r.ns);
  if (!rows.length) return nothing("No kernel ran.");
  return table([
    ["Share", r => element("span", {}, element("span", {class: "percent"}, percent(r.ns, total)), element("span", {class: "share", style: `width: ${(total ? 80 * r.ns / total : 0).toFixed(1)}px`})), r => r.ns, "left"],
    ["Time", r => time_text(r.ns), r => r.ns], ["Calls", r => count(r.calls), r => r.calls],
    ["Average", r => time_text(r.ns / r.calls), r => r.ns / r.calls], ["Longest", r => time_text(r.max), r => r.max],
    ["Launching", r => time_text(r.asked), r => r.asked], ["Bytes", r => bytes(r.bytes), r => r.bytes],
    ["GB/s", r => r.ns ? (r.bytes / r.ns).toFixed(2) : "", r => r.bytes / r.ns],
    ["On", r => r.first.device], ["Operators", r => r.first.op, null, "wrap mono"], ["Line", r => element("span", {}, ...r.sites.flatMap((s, i) => [i ? ", " : "", lineLink(profile, s)]))],
    ["Arguments of the longest call", r => r.types + (r.others ? " and others" : ""), null, "wrap mono"],
  ], rows, 0);
}

function copiesView(profile) {
  const n = runs(profile), waited = new Map(profile.sites.filter(s => s.kind === "sync").map(s => [s.function + s.pc, s.total_ns / n]));
  const rows = profile.sites.filter(s => s.kind === "dtoh" || s.kind === "htod").sort((a, b) => b.nbytes - a.nbytes);
  if (!rows.length) return nothing("No copies between the host and a device.");
  const wait = s => s.kind === "dtoh" ? waited.get(s.function + s.pc) ?? 0 : 0;
  return table([
    ["Direction", s => element("span", {}, element("span", {class: "swatch", style: `color: var(--${s.kind})`}), s.kind === "dtoh" ? "to the host" : "to the device")],
    ["Calls", s => count(s.calls / n), s => s.calls], ["Bytes", s => bytes(s.nbytes / n), s => s.nbytes],
    ["Time", s => time_text(s.total_ns / n), s => s.total_ns], ["Waited before", s => wait(s) ? time_text(wait(s)) : "", wait],
    ["Why", why, null, "wrap"], ["Line", s => lineLink(profile, s)],
  ], rows, 2);
}

function hostView(profile) {
  const n = runs(profile), rows = profile.sites.filter(s => ["shape_func", "sync", "host_call"].includes(s.kind)).sort((a, b) => b.total_ns - a.total_ns);
  if (!rows.length) return nothing("The host neither waited nor worked out shapes.");
  return table([
    ["What", s => element("span", {}, element("span", {class: "swatch", style: `color: var(--${s.kind})`}), KINDS[s.kind].replace(/s$/, ""))],
    ["Time", s => time_text(s.total_ns / n), s => s.total_ns], ["Calls", s => count(s.calls / n), s => s.calls],
    ["Longest", s => time_text(s.max_ns), s => s.max_ns], ["Name", s => s.name, null, "mono"],
    ["Instruction", s => s.pc < 0 ? "" : `@${s.function} ${s.pc}: ${s.instruction}`, null, "mono"], ["Line", s => lineLink(profile, s)],
    ["Arguments", s => s.types, null, "wrap mono"],
  ], rows, 1);
}

function memoryView(profile) {
  const n = runs(profile), rows = profile.sites.filter(s => s.kind === "alloc").sort((a, b) => b.nbytes - a.nbytes);
  if (!rows.length) return nothing("Nothing was allocated.");
  return table([
    ["Bytes", s => bytes(s.nbytes / n), s => s.nbytes], ["Holds", s => s.holds, null, "wrap mono"], ["Calls", s => count(s.calls / n), s => s.calls],
    ["Each", s => bytes(s.nbytes / s.calls), s => s.nbytes / s.calls], ["On", s => s.device],
    ["Line", s => lineLink(profile, s)],
    ["Instruction", s => `@${s.function} ${s.pc}: ${s.instruction}`, null, "mono"],
  ], rows, 0);
}

function runsView(profile) {
  const metrics = [...new Set(profile.metrics.flatMap(Object.keys))];
  const rows = profile.run_ns.map((ns, i) => ({number: i + 1, ns, metrics: profile.metrics[i] ?? {}}));
  const facts = [...Object.entries(profile.environment), ["arguments", profile.arguments.join(", ") || "none"], ["warm-up runs", profile.warmup],
    ...Object.entries(profile.counters).map(([k, v]) => [`${k}, per run`, k.endsWith("bytes") ? bytes(v) : count(v)])];
  const uses = {compiles: "compiled", disk_hits: "found on disk", memory_hits: "in memory already"};
  return element("div", {},
    element("h3", {}, "Timed runs"), table([["Run", r => r.number, r => r.number], ["Time", r => time_text(r.ns), r => r.ns],
      ...metrics.map(m => [m, r => m in r.metrics ? digits(r.metrics[m]) : "", r => r.metrics[m] ?? 0])], rows),
    element("h3", {}, "Kernels, when the machine was made"), profile.prepared.length
      ? table([["Store", u => uses[u[0]]], ["Time", u => time_text(u[2]), u => u[2]], ["Kernel", u => u[1], null, "mono"]], profile.prepared)
      : nothing("None."),
    element("h3", {}, "What ran, and where"), element("dl", {}, ...facts.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v instanceof Node ? v : String(v))])));
}

// ---- the program --------------------------------------------------------------------------------------------------------

function highlighted(text) {
  const parts = text.split(/(\/\/.*$|[%@][\w.]+)/);
  return parts.map(p => p.startsWith("//") ? element("span", {class: "comment"}, p) : /^[%@]/.test(p) ? element("span", {class: "name"}, p) : p);
}

function sourceView(profile) {
  const n = runs(profile), total = sum(profile.sites.filter(s => s.kind === "kernel" || s.kind === "host_call"), s => s.total_ns);
  const tables = profile.sources.map((source, number) => {
    const lines = new Map();
    for (const s of profile.sites.filter(s => s.source === number)) lines.set(s.line, [...(lines.get(s.line) ?? []), s]);
    if (!lines.size) return null;
    const rows = source.text.split("\n").flatMap((text, i) => sourceRows(text, i + 1, number, lines.get(i + 1) ?? [], total, n));
    const head = element("tr", {class: "figure"}, ...["Time", "", "Calls", "Copied", "", source.name].map((t, i) => element("td", {class: i === 5 ? "code" : ""}, t)));
    return element("div", {class: "scroll"}, element("table", {class: "program"}, head, ...rows));
  }).filter(t => t);
  return tables.length ? element("div", {}, ...tables) : nothing("The executable holds no program text.");
}

function sourceRows(text, line, number, found, total, n) {
  const ran = found.filter(s => s.kind === "kernel" || s.kind === "host_call"), copied = found.filter(s => s.kind === "dtoh" || s.kind === "htod");
  const ns = sum(ran, s => s.total_ns);
  const cell = (text, classes = "figure") => element("td", {class: classes}, text);
  const row = element("tr", {"data-line": `${number}:${line}`},
    cell(ran.length ? time_text(ns / n) : ""),
    element("td", {class: "heat"}, element("div", {}, ns ? element("div", {style: `width: ${Math.max(2, 100 * ns / total)}%`, title: percent(ns, total)}) : "")),
    cell(ran.length ? count(sum(ran, s => s.calls) / n) : ""), cell(copied.length ? bytes(sum(copied, s => s.nbytes) / n) : ""),
    cell(String(line), "number"), element("td", {class: "code"}, ...highlighted(text)));
  const notes = copied.map(s => element("tr", {class: `note ${s.kind}`}, ...Array(4).fill(0).map(() => element("td")), cell("", "number"), element("td", {class: "code"},
    `${s.kind === "dtoh" ? "↑ to the host" : "↓ to the device"}: ${count(s.calls / n)} × ${bytes_text(s.nbytes / s.calls)}, ${s.reason}`)));
  return [row, ...notes];
}

function toLine(profile, site) {
  state.side = PROFILES.indexOf(profile); state.view = "source"; apply();
  const row = document.querySelector(`[data-line="${site.source}:${site.line}"]`);
  if (row) { row.classList.add("chosen"); row.scrollIntoView({block: "center"}); }
}

// ---- one event ------------------------------------------------------------------------------------------------------------

function about(e) {
  const profile = e.profile, [number, start, end, askedStart, askedEnd, nbytes, live, types] = profile.timeline[e.index], site = profile.sites[number];
  const facts = [["when", `${time_text(start)} to ${time_text(end)}: ${time_text(end - start)}`]];
  if (site.kind === "kernel" && askedStart !== start) facts.push(["launched", `at ${time_text(askedStart)} in ${time_text(askedEnd - askedStart)}; ${time_text(start - askedEnd)} in the queue`]);
  if (site.op && site.op !== site.name) facts.push(["operators", site.op]);
  if (site.reason) facts.push(["why", site.reason]);
  if (site.holds) facts.push(["holds", site.holds]);
  if (types) facts.push(["arguments", types]);
  if (nbytes) facts.push(["bytes", bytes_text(nbytes) + (end > start && site.kind !== "alloc" ? `, ${(nbytes / (end - start)).toFixed(2)} GB/s` : "")]);
  facts.push(["in use after", bytes(live)]);
  if (site.pc >= 0) facts.push(["instruction", `@${site.function} ${site.pc}: ${site.instruction}`]);
  if (site.source >= 0) facts.push(["line", element("span", {}, lineLink(profile, site), "  ", element("code", {}, profile.sources[site.source].text.split("\n")[site.line - 1].trim()))]);
  return [element("div", {class: "strong"}, element("span", {class: "swatch", style: `color: var(--${e.kind})`}), e.kind === "launch" ? `launch of ${site.name}` : site.name),
    element("dl", {}, ...facts.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)]))];
}

function hover(e) {
  const box = $("tooltip");
  box.hidden = !e;
  if (!e) return;
  box.replaceChildren(...about(e));
  const {width, height} = box.getBoundingClientRect();
  box.style.left = Math.max(8, Math.min(e.x + 14, innerWidth - width - 8)) + "px";
  box.style.top = (e.y + 18 + height > innerHeight ? Math.max(8, e.y - height - 12) : e.y + 18) + "px";
}

// ---- the page ---------------------------------------------------------------------------------------------------------------

function comparison(data) {
  const columns = data.header.map((title, i) => [title,
    r => element("span", {class: r.tones?.[i] || null, title: r.titles?.[i] || null}, r.cells[i]),
    i ? r => r.values?.[i] ?? (parseFloat(r.cells[i]) || 0) : null, i ? "" : "wrap name"]);
  const rows = data.rows.map(r => Array.isArray(r) ? {cells: r, mark: ""} : r);
  $("comparison").hidden = false;
  $("comparison").append(element("div", {class: "bar"}, element("h2", {}, data.title ?? "Comparison")), table(columns, rows),
    ...(data.notes ?? []).map(n => element("p", {class: "muted"}, n)));
}

const VIEWS = {operators: operatorsView, copies: copiesView, source: sourceView, host: hostView, memory: memoryView, runs: runsView};
let timeline = null;

function apply() {
  paint(state.theme); press($("view"), state.view); press($("side"), state.side);
  for (const b of $("kinds").children) b.setAttribute("aria-pressed", String(!state.hide.has(b.dataset.value)));
  $("content").replaceChildren(VIEWS[state.view](PROFILES[state.side]));
  timeline.hidden = state.hide; timeline.draw(); remember();
}

function remember() {
  const parts = {theme: state.theme, view: state.view, side: state.side, hide: [...state.hide].join(","), from: +state.from.toFixed(5), to: +state.to.toFixed(5)};
  const usual = {theme: "auto", view: "operators", side: 0, hide: "", from: 0, to: 1};
  const changed = Object.entries(parts).filter(([k, v]) => String(v) !== String(usual[k]));
  history.replaceState(null, "", "#" + new URLSearchParams(changed).toString());
}

function recall() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (key, otherwise) => Number.isFinite(parseFloat(given.get(key))) ? parseFloat(given.get(key)) : otherwise;
  if (THEMES.includes(given.get("theme"))) state.theme = given.get("theme");
  if (given.get("view") in VIEWS) state.view = given.get("view");
  state.side = Math.min(PROFILES.length - 1, Math.max(0, Math.trunc(number("side", 0))));
  state.hide = new Set((given.get("hide") ?? "").split(",").filter(k => k in KINDS));
  state.from = number("from", 0); state.to = number("to", 1);
}

// What all profiles have in common once, then what each has of its own.
function settings() {
  const own = PROFILES.map(p => Object.entries({...(PROFILES.some(q => q.device !== p.device) ? {device: p.device} : {}), ...p.config}));
  const text = ([k, v]) => `${k}=${v}`, shared = own[0].map(text).filter(t => own.every(o => o.some(s => text(s) === t)));
  const row = (mark, texts) => $("settings").append(element("span", {class: "row"}, mark, ...texts.map(t => element("span", {class: "chip"}, t))));
  row(null, shared);
  PROFILES.forEach((p, i) => {
    const texts = own[i].map(text).filter(t => !shared.includes(t));
    if (PROFILES.length > 1 && texts.length) row(element("span", {class: "side", style: `color: var(--side${i % 4})`}, p.name), texts);
  });
}

function build() {
  const first = PROFILES[0], n = PROFILES.length;
  $("title").textContent = `@${first.entry} on ${[...new Set(PROFILES.map(p => p.device))].join(" and ")}`;
  $("subtitle").textContent = [first.arguments.join(", "), `relayvm ${first.environment.relayvm ?? ""}`, first.environment.machine].filter(t => t).join(" · ");
  settings();
  $("tiles").append(...tiles());
  if (DATA.comparison) comparison(DATA.comparison);
  $("side").hidden = n === 1;
  $("side").append(...PROFILES.map((p, i) => element("button", {"data-value": i}, p.name)));
  timeline = new Timeline($("timeline"), PROFILES, {hover, chosen: e => { $("details").hidden = false; $("details").replaceChildren(...about(e)); },
    moved: (from, to) => { state.from = from; state.to = to; remember(); }});
  const present = new Set(timeline.events.flat().map(e => e.kind));
  $("kinds").append(...Object.keys(KINDS).filter(k => present.has(k)).map(k => element("button", {"data-value": k, onclick: () => {
    state.hide.has(k) ? state.hide.delete(k) : state.hide.add(k); apply();
  }}, element("span", {class: "swatch", style: `color: var(--${k})`}), KINDS[k])));
  const dropped = sum(PROFILES, p => p.timeline_dropped);
  $("timeline-about").textContent = (n > 1 ? "one run of each" : `one traced run, ${time_text(first.timeline_ns)}`) + (dropped ? `; ${dropped} later events are not shown` : "");
}

function start() {
  recall(); build();
  for (const key of ["theme", "view", "side"]) $(key).addEventListener("click", e => {
    if (e.target.dataset.value !== undefined) { state[key] = key === "side" ? Number(e.target.dataset.value) : e.target.dataset.value; apply(); }
  });
  $("zoom-in").onclick = () => timeline.zoom(0.5); $("zoom-out").onclick = () => timeline.zoom(2);
  $("zoom-all").onclick = () => timeline.show(0, timeline.length);
  addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "+") timeline.zoom(0.5); else if (e.key === "-") timeline.zoom(2); else if (e.key === "0") timeline.show(0, timeline.length);
  });
  dark.addEventListener("change", apply);
  apply(); timeline.show(state.from * timeline.length, state.to * timeline.length);
}
start();
