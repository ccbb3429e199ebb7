// The timeline: lanes of events over one time axis for all profiles, each with its curve of memory.

const LEFT = 96, RIGHT = 12, AXIS = 22, LANE = 26, GAP = 5, CURVE = 64, BETWEEN = 20;
// [name, kinds, of events on the profile's device (true), on the host (false) or on either (null)]
const LANES = [
  ["host", ["launch", "shape_func", "host_call", "sync", "alloc"], null],
  ["host kernels", ["kernel"], false],
  ["kernels", ["kernel"], true],
  ["copies", ["htod", "dtoh"], null],
];

// The events of a profile as the lanes show them; a launch is the host's part of a kernel that ran later.
function laneEvents(profile) {
  const out = [];
  profile.timeline.forEach((moment, index) => {
    const [number, start, end, askedStart, askedEnd] = moment, site = profile.sites[number];
    out.push({kind: site.kind, device: site.device, start, end, index, profile});
    if (site.kind === "kernel" && askedStart !== start) out.push({kind: "launch", start: askedStart, end: askedEnd, index, profile});
  });
  return out.sort((a, b) => a.start - b.start);
}

class Timeline {
  constructor(host, profiles, listeners) {
    this.host = host; this.profiles = profiles; this.listeners = listeners;
    this.events = profiles.map(laneEvents);
    this.length = Math.max(1, ...profiles.map(p => p.timeline_ns));
    this.from = 0; this.to = this.length; this.hidden = new Set(); this.chosen = null;
    this.listen();
  }

  get inner() { return Math.max(200, this.host.clientWidth) - LEFT - RIGHT; }
  x(time) { return LEFT + (time - this.from) / (this.to - this.from) * this.inner; }
  time(x) { return this.from + (x - LEFT) / this.inner * (this.to - this.from); }

  show(from, to) {
    const span = Math.min(this.length, Math.max(to - from, 50));
    this.from = Math.min(Math.max(0, from), this.length - span); this.to = this.from + span;
    this.draw(); this.listeners.moved(this.from / this.length, this.to / this.length);
  }
  zoom(factor, at = (this.from + this.to) / 2) { this.show(at - (at - this.from) * factor, at + (this.to - at) * factor); }

  listen() {
    const host = this.host;
    host.addEventListener("wheel", e => {
      e.preventDefault();
      this.zoom(Math.exp(e.deltaY * 0.0015), this.time(e.clientX - host.getBoundingClientRect().left));
    }, {passive: false});
    let grabbed = null;
    host.addEventListener("pointerdown", e => { grabbed = {x: e.clientX, from: this.from, to: this.to, moved: false}; });
    window.addEventListener("pointerup", () => { grabbed = null; host.style.cursor = ""; });
    window.addEventListener("pointermove", e => {
      if (!grabbed || Math.abs(e.clientX - grabbed.x) < 3 && !grabbed.moved) return;
      grabbed.moved = true; host.style.cursor = "grabbing";
      const shift = (grabbed.x - e.clientX) / this.inner * (grabbed.to - grabbed.from);
      this.show(grabbed.from + shift, grabbed.to + shift);
    });
    host.addEventListener("pointermove", e => this.point(e));
    host.addEventListener("pointerleave", () => { this.listeners.hover(null); this.cursor?.setAttribute("visibility", "hidden"); });
    new ResizeObserver(() => this.draw()).observe(host);
  }

  point(e) {
    const x = e.clientX - this.host.getBoundingClientRect().left;
    this.cursor?.setAttribute("visibility", x > LEFT && x < LEFT + this.inner ? "visible" : "hidden");
    this.cursor?.setAttribute("x1", x); this.cursor?.setAttribute("x2", x);
    const found = e.target.event;
    this.listeners.hover(found ? {...found, x: e.clientX, y: e.clientY} : null);
  }

  draw() {
    const root = svg("svg", {role: "img", "aria-label": "timeline"});
    let y = AXIS;
    const body = svg("g", {});
    this.profiles.forEach((profile, i) => { y = this.drawProfile(body, profile, i, y); });
    root.append(svg("clipPath", {id: "inside"}, svg("rect", {x: LEFT, y: 0, width: this.inner, height: y})));
    this.drawAxis(root, y); root.append(body);
    this.cursor = svg("line", {id: "cursor", y1: AXIS, y2: y, visibility: "hidden"});
    root.append(this.cursor); root.setAttribute("height", y + 2); root.setAttribute("viewBox", `0 0 ${this.inner + LEFT + RIGHT} ${y + 2}`);
    this.host.replaceChildren(root);
  }

  drawAxis(root, bottom) {
    const span = this.to - this.from, rough = span / Math.max(2, this.inner / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      const x = this.x(t);
      root.append(svg("line", {class: "grid", x1: x, x2: x, y1: AXIS - 4, y2: bottom}));
      root.append(svg("text", {x, y: 12, "text-anchor": "middle"}, time_text(t)));
    }
  }

  drawProfile(root, profile, number, y) {
    if (profile.name) {
      root.append(svg("text", {x: 0, y: y + 12, class: "strong", style: `fill: var(--side${number % 4})`}, profile.name));
      y += 18;
    }
    const events = this.events[number];
    for (const [name, kinds, there] of LANES) {
      const mine = events.filter(e => kinds.includes(e.kind) && (there === null || (e.device === profile.device) === there));
      if (!mine.length) continue;
      root.append(svg("rect", {class: "lane", x: LEFT, y, width: this.inner, height: LANE, rx: 3}));
      root.append(svg("text", {x: 0, y: y + 17}, name.startsWith("host") ? name : `${profile.device} ${name}`));
      root.append(this.drawLane(mine.filter(e => !this.hidden.has(e.kind)), y));
      y += LANE + GAP;
    }
    return this.drawMemory(root, profile, number, y) + (number + 1 < this.profiles.length ? BETWEEN : 0);
  }

  drawLane(events, y) {
    const lane = svg("g", {"clip-path": "url(#inside)"}), last = {};
    for (const e of events) {
      if (e.end < this.from || e.start > this.to) continue;
      const x = Math.max(this.x(e.start), LEFT - 2), end = Math.min(this.x(e.end), LEFT + this.inner + 2), width = Math.max(1.2, end - x);
      const before = last[e.kind];
      if (width < 2 && before && x - before < 1.2) continue; // nothing to see beside its neighbour
      last[e.kind] = x + width;
      const inset = e.kind === "alloc" ? 16 : e.kind === "sync" ? 0 : 3;
      const box = svg("rect", {
        class: `event ${e.kind}`, x, y: y + inset, width, height: LANE - inset - (inset === 3 ? 3 : 0), rx: width > 5 ? 2 : 0,
        style: `fill: var(--${e.kind})`, "data-index": e.index,
      });
      if (this.chosen && this.chosen.index === e.index && this.chosen.profile === e.profile) box.classList.add("chosen");
      box.event = e;
      box.addEventListener("click", () => { this.chosen = e; this.draw(); this.listeners.chosen(e); });
      lane.append(box);
      const label = e.profile.sites[e.profile.timeline[e.index][0]].name, room = Math.floor((width - 8) / 6.2);
      if (room >= 4 && e.kind !== "alloc") {
        lane.append(svg("text", {class: `inside ${e.kind}`, x: x + 5, y: y + 17}, label.length > room ? label.slice(0, room - 1) + "…" : label));
      }
    }
    return lane;
  }

  drawMemory(root, profile, number, y) {
    const points = profile.timeline.map(m => [m[2], m[6]]).sort((a, b) => a[0] - b[0]);
    const peak = Math.max(1, ...points.map(p => p[1])), bottom = y + CURVE, scale = (CURVE - 8) / peak;
    let path = `M${this.x(0)},${bottom}`, level = points.length ? points[0][1] : 0;
    path += `V${bottom - level * scale}`;
    for (const [t, bytes] of points) {
      path += `H${this.x(t).toFixed(1)}V${(bottom - bytes * scale).toFixed(1)}`; level = bytes;
    }
    path += `H${this.x(profile.timeline_ns)}V${bottom}Z`;
    const colour = `var(--side${number % 4})`;
    root.append(svg("rect", {class: "lane", x: LEFT, y, width: this.inner, height: CURVE, rx: 3}));
    root.append(svg("text", {x: 0, y: y + 14}, "memory"), svg("text", {x: 0, y: y + 28}, bytes_text(peak)));
    root.append(svg("path", {class: "curve", d: path, "clip-path": "url(#inside)", style: `fill: ${colour}; stroke: ${colour}`}));
    return bottom + GAP;
  }
}
