// The graph page.  Each scope comes with a layout of its folded items; an unfolded item moves the items beside and below it apart.

const DATA = JSON.parse($("data").textContent);
const HEAD = 34, PAD = 14;
const COLOURS = [0, 2, 3];  // of devices: those of copies are other ones
const LEAST_ZOOM = 0.7;  // texts of nodes are legible from here on
const state = {theme: "auto", colour: "device", zoom: 1, open: new Set(), chosen: null, sizes: false};
const text = n => DATA.texts[n];

// ---- items: scopes, nodes, operators --------------------------------------------------------------------------------------

const NODES = DATA.nodes.map(([kind, name, fn, pc, device, formats, place, facts, kernel, ns, calls, callee], number) => ({
  id: `n${number}`, number, kind, name: text(name), fn: text(fn), pc, device: DATA.devices[device], formats: text(formats), place: text(place),
  facts: facts.map(([k, v]) => [text(k), text(v)]), kernel, ns, calls, callee: text(callee), items: null, layout: null, count: 1, total: ns,
}));
const SCOPES = DATA.scopes.map(([name, items, layout], number) => ({id: `s${number}`, kind: "scope", name: text(name), refs: items, layout}));
for (const scope of SCOPES) {
  scope.items = scope.refs.map(r => r >= 0 ? NODES[r] : SCOPES[~r]);
  scope.items.forEach((item, i) => { item.parent = scope; item.at = i; });
}
for (const node of NODES) if (node.kernel >= 0) {
  const {ops, layout} = DATA.kernels[node.kernel];
  node.layout = layout;
  node.items = ops.map(([name, type], i) => ({id: `${node.id}.${i}`, kind: "operator", name: text(name), type: text(type), facts: [["type", text(type)]],
    device: node.device, formats: "", parent: node, at: i, items: null, count: 0, total: 0, ns: 0}));
}
const ROOT = SCOPES[0];
(function total(item) {
  if (item.kind !== "scope") return;
  item.items.forEach(total);
  item.count = sum(item.items, i => i.count); item.total = sum(item.items, i => i.total);
  item.kernels = sum(item.items, i => i.kind === "scope" ? i.kernels : i.kind === "kernel" ? 1 : 0);
  item.copies = sum(item.items, i => i.kind === "scope" ? i.copies : i.kind === "copy" ? 1 : 0);
  const names = new Map();
  for (const i of item.items) for (const [name, n] of i.kind === "scope" ? i.names : i.kind === "kernel" ? [[i.name, 1]] : []) names.set(name, n + (names.get(name) ?? 0));
  item.names = [...names].sort((a, b) => b[1] - a[1]);
  const devices = new Set(item.items.filter(i => i.kind !== "argument" && i.kind !== "result").map(i => i.device));
  item.device = devices.size === 1 ? [...devices][0] : ""; item.formats = "";
})(ROOT);
const EDGES = DATA.edges.map(([s, t, name, type, nbytes, sizes]) => ({source: NODES[s], target: NODES[t], name: text(name), type: text(type), nbytes, sizes}));
const LONGEST = Math.max(1, ...NODES.map(n => n.ns));
const WHOLE = sum(NODES, n => n.ns);
const FORMATS = [...new Set(NODES.filter(n => n.formats).map(n => n.formats))];

const isOpen = item => state.open.has(item.id);
const canOpen = item => item.items !== null && item.items !== undefined && item.items.length > (item.kind === "scope" ? 0 : 1);
function shown(item) {  // the item, or the folded scope that it is in
  let found = item;
  for (let up = item.parent; up; up = up.parent) if (!isOpen(up)) found = up;
  return found;
}

// ---- places ------------------------------------------------------------------------------------------------------------------

// The sizes of an item and, where it is unfolded, the places of its items relative to it.
function arrange(item, width, height) {
  if (!isOpen(item)) { item.w = width; item.h = height; return; }
  const [w, h, places] = item.layout;
  item.items.forEach((each, i) => arrange(each, places[i][2], places[i][3]));
  const middle = (i, axis) => places[i][axis] + places[i][axis + 2] / 2;
  const shift = [0, 1].map(axis => {  // by the most that an item of the column, or row, has grown
    const grown = new Map();
    item.items.forEach((each, i) => {
      const by = (axis ? each.h : each.w) - places[i][axis + 2], at = middle(i, axis);
      if (by > 0) grown.set(at, Math.max(by, grown.get(at) ?? 0));
    });
    const list = [...grown].sort((a, b) => a[0] - b[0]);
    return x => { let s = 0; for (const [at, by] of list) { if (at < x) s += by; else { if (at === x) s += by / 2; break; } } return x + s; };
  });
  item.move = ([x, y]) => [shift[0](x) + PAD, shift[1](y) + HEAD];
  item.items.forEach((each, i) => {
    const [x, y] = item.move([middle(i, 0), middle(i, 1)]);
    each.x = x - each.w / 2; each.y = y - each.h / 2;
  });
  const [right, bottom] = item.move([w + 0.5, h + 0.5]);
  item.w = Math.max(right + PAD, 7.5 * item.name.length + 60); item.h = bottom + PAD;
}

function settle(item, x, y) {  // places on the page
  item.px = x; item.py = y;
  if (isOpen(item)) item.items.forEach(each => settle(each, x + each.x, y + each.y));
}

// ---- drawing -----------------------------------------------------------------------------------------------------------------

function colour(item) {
  if (state.colour === "time") return WHOLE ? ["var(--kernel)", `${Math.round(4 + 76 * Math.sqrt(item.total / (item.kind === "scope" ? WHOLE : LONGEST)))}%`] : ["var(--muted)", null];
  if (item.kind === "copy") return [item.device === "cpu" ? "var(--dtoh)" : "var(--htod)", "30%"];
  if (state.colour === "format") return [item.formats ? `var(--side${FORMATS.indexOf(item.formats) % 4})` : "var(--muted)", null];
  return [item.device ? `var(--side${COLOURS[DATA.devices.indexOf(item.device) % 3]})` : "var(--muted)", null];
}

function second(item) {
  if (item.kind === "scope") return [`${item.kernels} kernel${item.kernels === 1 ? "" : "s"}`, item.copies ? `${item.copies} cop${item.copies === 1 ? "y" : "ies"}` : "", ...item.names.slice(0, 2).map(n => n[0])].filter(t => t).join(", ");
  const found = new Map(item.facts);
  return found.get("because") ?? found.get("results") ?? found.get("type") ?? found.get("result") ?? "";
}
const cut = (words, width) => { const n = Math.max(4, Math.floor((width - 16) / 6.7)); return words.length > n ? words.slice(0, n - 1) + "…" : words; };

function draw() {
  arrange(ROOT, 0, 0); settle(ROOT, 0, 0);
  const boxes = [], leaves = [];
  (function visit(item) {
    if (item !== ROOT) (isOpen(item) ? boxes : leaves).push(item);
    if (isOpen(item)) item.items.forEach(visit);
  })(ROOT);
  const root = svg("svg", {width: Math.ceil(ROOT.w * state.zoom), height: Math.ceil(ROOT.h * state.zoom), viewBox: `0 0 ${ROOT.w} ${ROOT.h}`});
  root.append(...boxes.map(box), ...lines().map(line), ...leaves.map(box));
  $("graph").replaceChildren(root);
}

function box(item) {
  const [c, part] = colour(item), opened = isOpen(item);
  const g = svg("g", {class: `node ${item.kind}${opened ? " open" : ""}${state.chosen === item ? " chosen" : ""}`, transform: `translate(${item.px} ${item.py})`,
    style: `--c: ${c}${part && !opened ? `; --part: ${part}` : ""}`, tabindex: 0, role: "button", "data-id": item.id});
  if (canOpen(item)) g.setAttribute("aria-expanded", String(opened));
  const mark = canOpen(item) ? (opened ? "▾ " : "▸ ") : "", round = item.kind === "argument" || item.kind === "result" ? 18 : item.kind === "scope" ? 4 : 7;
  g.append(svg("rect", {width: item.w, height: item.h, rx: round}), svg("text", {class: "first", x: 9, y: 18}, mark + cut(item.name, item.w - (mark ? 14 : 0))));
  if (!opened) g.append(svg("text", {class: "second", x: 9, y: 34}, cut(second(item), item.w)));
  if (item.total && !opened) g.append(svg("text", {class: "time", x: 9, y: 50}, `${time_text(item.total)}  ${percent(item.total, WHOLE)}`));
  g.append(svg("title", {}, `${item.name}\n${second(item)}`));
  return g;
}

// The edges between what is shown, each pair once.
function lines() {
  const found = new Map();
  for (const e of EDGES) {
    if (e.sizes && !state.sizes) continue;
    const a = shown(e.source), b = shown(e.target);
    if (a === b) continue;
    const key = a.id + " " + b.id;
    if (!found.has(key)) found.set(key, {a, b, edges: []});
    found.get(key).edges.push(e);
  }
  for (const node of NODES) if (node.items && isOpen(node) && shown(node) === node) for (const [i, j] of DATA.kernels[node.kernel].edges) {
    found.set(`${node.id} ${i} ${j}`, {a: node.items[i], b: node.items[j], edges: []});
  }
  return [...found.values()];
}

function line({a, b, edges}) {
  const up = new Set(); for (let i = a; i; i = i.parent) up.add(i);
  let A = a, B = b; while (!up.has(B.parent)) B = B.parent; while (A.parent !== B.parent) A = A.parent;
  const scope = A.parent, route = scope.layout[3].find(r => r[0] === A.at && r[1] === B.at);
  const points = [[a.px + a.w / 2, a.py + a.h]];
  if (route) for (let i = 2; i < route.length; i += 2) { const [x, y] = scope.move([route[i], route[i + 1]]); points.push([scope.px + x, scope.py + y]); }
  points.push([b.px + b.w / 2, b.py]);
  let d = `M${points[0].map(Math.round).join(" ")}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], bend = y1 > y0 ? (y1 - y0) / 2 : 40;
    d += `C${[x0, y0 + bend, x1, y1 - bend, x1, y1].map(Math.round).join(" ")}`;
  }
  const path = svg("path", {d, class: `edge${edges.length && edges.every(e => e.sizes) ? " sizes" : ""}`, "data-a": a.id, "data-b": b.id});
  path.append(svg("title", {}, edges.slice(0, 12).map(valueText).join("\n") + (edges.length > 12 ? `\nand ${edges.length - 12} more` : "")));
  return path;
}
const valueText = e => [e.name && `%${e.name}`, e.type, e.nbytes === null ? "" : bytes_text(e.nbytes), e.sizes ? "its sizes only" : ""].filter(t => t).join("  ");

// ---- details and folding -------------------------------------------------------------------------------------------------------

const BY_ID = new Map([...NODES, ...SCOPES].map(i => [i.id, i]));
for (const n of NODES) if (n.items) for (const op of n.items) BY_ID.set(op.id, op);

function inside(item, wanted) { for (let i = item; i; i = i.parent) if (i === wanted) return true; return false; }
function about(item) {
  const own = item.kind === "operator" ? [] : EDGES, facts = [];
  if (item.kind === "scope") facts.push(["nodes", `${item.count}: ${second(item)}`]);
  if (item.device) facts.push(["device", item.device]);
  facts.push(...(item.facts ?? []));
  if (item.formats) facts.push(["formats", item.formats]);
  if (item.total) facts.push(["time of a run", `${time_text(item.total)}, ${percent(item.total, WHOLE)}` + (item.calls > 1 ? `, ${count(item.calls)} calls` : "")]);
  if (item.place) facts.push(["line", element("code", {}, item.place)]);
  if (item.fn) facts.push(["instruction", `@${item.fn}${item.pc >= 0 ? ` ${item.pc}` : ""}`]);
  const link = (e, other) => element("li", {}, element("a", {href: "#", onclick: event => { event.preventDefault(); reveal(other); }}, other.name), `  ${valueText(e)}`);
  const list = (title, edges, end) => edges.length ? [element("h3", {}, title), element("ul", {}, ...edges.slice(0, 40).map(e => link(e, e[end])),
    edges.length > 40 ? element("li", {}, `and ${edges.length - 40} more`) : null)] : [];
  $("about").hidden = false;
  $("about").replaceChildren(element("h2", {}, item.name), element("dl", {}, ...facts.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)])),
    ...list("reads", own.filter(e => inside(e.target, item) && !inside(e.source, item)), "source"),
    ...list("is read by", own.filter(e => inside(e.source, item) && !inside(e.target, item)), "target"),
    ...(item.callee ? [element("a", {href: "#", onclick: event => { event.preventDefault(); const f = SCOPES.find(s => s.name === `@${item.callee}`); if (f) reveal(f); }}, `to @${item.callee}`)] : []));
}

function choose(item) {
  state.chosen = item; about(item);
  for (const g of $("graph").querySelectorAll(".node")) g.classList.toggle("chosen", g.dataset.id === item.id);
  for (const p of $("graph").querySelectorAll(".edge")) p.classList.toggle("lit", p.dataset.a === item.id || p.dataset.b === item.id);
}
function toggle(item, on) { if (on) state.open.add(item.id); else state.open.delete(item.id); }

// Unfolds the scopes around an item and scrolls to it.
function reveal(item) {
  for (let i = item.parent; i; i = i.parent) toggle(i, true);
  draw(); choose(item); center(item);
}
function center(item) {
  const view = $("graph");
  view.scrollTo({left: (item.px + item.w / 2) * state.zoom - view.clientWidth / 2, top: (item.py + Math.min(item.h, 200) / 2) * state.zoom - view.clientHeight / 2});
}

function press_item(item) {
  if (canOpen(item)) {
    const view = $("graph"), before = [item.px * state.zoom - view.scrollLeft, item.py * state.zoom - view.scrollTop];
    toggle(item, !isOpen(item)); draw();
    view.scrollTo({left: item.px * state.zoom - before[0], top: item.py * state.zoom - before[1]});
  }
  choose(item);
}

// ---- the page --------------------------------------------------------------------------------------------------------------------

function legend() {
  const chip = (c, words) => element("span", {class: "chip"}, element("span", {class: "swatch", style: `color: ${c}`}), words);
  const copies = NODES.some(n => n.kind === "copy") ? [chip("var(--dtoh)", "copy to the host"), chip("var(--htod)", "copy to the device")] : [];
  const chips = state.colour === "format" ? FORMATS.slice(0, 12).map((f, i) => chip(`var(--side${i % 4})`, f))
    : state.colour === "time" ? [chip("var(--kernel)", WHOLE ? "the darker, the longer" : "no run was measured")]
    : [...new Set(NODES.map(n => n.device))].map(d => chip(`var(--side${COLOURS[DATA.devices.indexOf(d) % 3]})`, d));
  $("legend").replaceChildren(...chips, ...(state.colour === "time" ? [] : copies),
    ...(EDGES.some(e => e.sizes) ? [element("button", {"aria-pressed": String(state.sizes), onclick: () => { state.sizes = !state.sizes; legend(); draw(); }}, "sizes only (dashed)")] : []));
}

function zoom(to) {
  const view = $("graph"), middle = [view.scrollLeft + view.clientWidth / 2, view.scrollTop + view.clientHeight / 2].map(v => v / state.zoom);
  state.zoom = Math.min(3, Math.max(0.05, to)); draw();
  view.scrollTo({left: middle[0] * state.zoom - view.clientWidth / 2, top: middle[1] * state.zoom - view.clientHeight / 2});
}
// Folds all, but for the outer scopes while few items show; or unfolds all scopes.
function fold_all(on) {
  state.open.clear(); toggle(ROOT, true);
  if (on) for (const s of SCOPES) toggle(s, true);
  else {
    let level = ROOT.items, seen = level.length;
    for (;;) {
      const scopes = level.filter(i => i.kind === "scope");
      level = scopes.flatMap(s => s.items); seen += level.length;
      if (!scopes.length || seen > DATA.most) break;
      for (const s of scopes) toggle(s, true);
    }
  }
  draw();
  // a graph that is a little wider than the window is shown whole in its width
  const view = $("graph"), whole = view.clientWidth / ROOT.w;
  if (state.zoom === 1 && whole < 1 && whole >= LEAST_ZOOM) { state.zoom = whole; draw(); }
  const top = Math.min(...ROOT.items.map(i => i.py)), first = ROOT.items.filter(i => i.py < top + 60).sort((a, b) => b.count - a.count)[0];
  view.scrollTo({left: (first.px + first.w / 2) * state.zoom - view.clientWidth / 2, top: 0});
}

function search(words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return;
  const hit = i => i.name.toLowerCase().includes(wanted) || (i.facts ?? []).some(([, v]) => typeof v === "string" && v.toLowerCase().includes(wanted));
  const all = [...SCOPES.slice(1), ...NODES], after = state.chosen ? all.indexOf(state.chosen) + 1 : 0;
  const found = [...all.slice(after), ...all.slice(0, after)].find(hit);
  if (found) reveal(found);
}

function start() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (THEMES.includes(given.get("theme"))) state.theme = given.get("theme");
  if (["device", "format", "time"].includes(given.get("colour"))) state.colour = given.get("colour");
  $("title").textContent = DATA.title; $("subtitle").textContent = DATA.subtitle;
  $("settings").append(...DATA.settings.map(s => element("span", {class: "chip"}, s)));
  $("found").append(...[...new Set(NODES.map(n => n.name))].slice(0, 200).map(n => element("option", {value: n})));
  paint(state.theme); press($("colour"), state.colour); legend();
  $("theme").addEventListener("click", e => { if (e.target.dataset.value) { state.theme = e.target.dataset.value; paint(state.theme); } });
  $("colour").addEventListener("click", e => { if (e.target.dataset.value) { state.colour = e.target.dataset.value; press($("colour"), state.colour); legend(); draw(); } });
  const chosen = e => BY_ID.get(e.target.closest?.(".node")?.dataset.id);
  $("graph").addEventListener("click", e => { const item = chosen(e); if (item) press_item(item); });
  $("graph").addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { const item = chosen(e); if (item) { e.preventDefault(); press_item(item); } } });
  $("fold").onclick = () => fold_all(false); $("unfold").onclick = () => fold_all(true);
  $("zoom-in").onclick = () => zoom(state.zoom * 1.25); $("zoom-out").onclick = () => zoom(state.zoom / 1.25);
  $("zoom-all").onclick = () => zoom(Math.min($("graph").clientWidth / ROOT.w, $("graph").clientHeight / ROOT.h, 1));
  $("search").addEventListener("change", e => search(e.target.value));
  dark.addEventListener("change", () => paint(state.theme));
  fold_all(false);
}
start();
