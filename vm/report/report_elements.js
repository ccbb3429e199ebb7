"use strict";
// Words and elements of the pages: times, bytes, nodes of HTML and SVG, groups of buttons, the colours.

const SVG = "http://www.w3.org/2000/svg";

function time_text(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (Math.abs(ns) >= size) return digits(ns / size) + " " + unit;
  return Math.round(ns) + " ns";
}
function bytes_text(n) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (n >= size) return digits(n / size) + " " + unit;
  return Math.round(n) + " B";
}
// Bytes for people; the exact number shows over it.
function bytes(n) {
  const exact = Number.isInteger(n) ? n.toLocaleString("en") : n.toLocaleString("en", {maximumFractionDigits: 1});
  return element("span", {title: `${exact} bytes`}, bytes_text(n));
}
function digits(value) { return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2); }
function count(n) { return Number.isInteger(n) ? String(n) : n.toFixed(1); }
function percent(part, whole) { return whole ? (100 * part / whole).toFixed(1) + " %" : "0 %"; }

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(c => c !== null && c !== undefined));
  return node;
}
function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const $ = id => document.getElementById(id);
const sum = (items, of) => items.reduce((total, item) => total + of(item), 0);

function press(group, value) {
  for (const b of group.querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.dataset.value === String(value)));
}

const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint(theme) {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  press($("theme"), theme);
}
