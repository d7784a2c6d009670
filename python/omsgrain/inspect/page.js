// SPDX-License-Identifier: Apache-2.0
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const TYPES = Object.keys(data.types);
const LEVELS = ["public", "internal", "pii", "phi"];

// Control characters and those that turn the direction of a line are shown, not obeyed.
const ACTIVE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const visible = (text) =>
  String(text).replace(ACTIVE, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

function make(name, attributes = {}, ...children) {
  const svg = "svg g line circle rect text title path".split(" ").includes(name);
  const made = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

function section(id, title, ...children) {
  const made = make("section", { id }, make("h2", {}, title), ...children);
  document.getElementById("main").append(made);
  return made;
}

const number = (value) => value.toLocaleString("en");
const color = (type) => `var(--c${Math.max(TYPES.indexOf(type), 0) % 10})`;
const short = (address) => address.slice(0, 12);
const day = (second) => new Date(second * 1000).toISOString().replace(":00.000Z", "").replace("T", " ");

function table(head, rows) {
  const cell = (value) =>
    value instanceof Node && value.tagName === "TD" ? value : make("td", {}, value);
  return make("table", {},
    make("thead", {}, make("tr", {}, head.map((name) => make("th", {}, name)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell)))));
}

function bars(counts, paint) {
  const most = Math.max(1, ...counts.map(([, count]) => count));
  return table(["", "", ""], counts.map(([name, count]) => [
    name,
    make("td", { class: "number" }, number(count)),
    make("td", { style: "width:55%" },
      count === 0 ? null : make("div", { class: "bar", style: `width:${(100 * count) / most}%;background:${paint(name)}` })),
  ]));
}

function about() {
  const wrong = data.failures.length + data.checks.filter((one) => !one.ok).length;
  document.getElementById("about").textContent =
    `${data.kind}, looked at ${data.at} by omsgrain ${data.by}`;
  const figures = [
    [number(data.grains), data.grains === 1 ? "grain" : "grains"],
    [number(data.bytes), "bytes"],
    [number(data.verified), "verified"],
    [number(wrong), wrong === 1 ? "problem" : "problems"],
    [data.first ? data.first.slice(0, 10) : "–", "first made"],
    [data.last ? data.last.slice(0, 10) : "–", "last made"],
  ];
  document.getElementById("main").append(make("div", { class: "numbers" },
    figures.map(([value, name], place) =>
      make("div", { class: place === 3 && wrong ? "bad" : null }, make("b", {}, value), name))));
}

function verification() {
  const lines = [
    data.failures.length
      ? make("p", { class: "bad" }, `✗ ${number(data.failures.length)} not good`)
      : make("p", { class: "good" }, `✓ ${number(data.verified)} verified`),
    ...data.checks.map((one) => make("p", { class: one.ok ? "good" : "bad" },
      one.ok ? `✓ ${one.name}` : `✗ ${one.name}: ${one.problems.length} problems`)),
  ];
  const wrong = [
    ...data.failures.map((one) => [one.name, make("code", {}, one.code), one.message,
      one.offset === undefined || one.offset === null ? "" : `byte ${one.offset}`]),
    ...data.checks.flatMap((one) => one.problems.map((text) => [one.name, "", text, ""])),
  ];
  section("verification", "Verification", lines,
    wrong.length ? table(["what", "code", "why", "where"], wrong) : null);
}

function timeline() {
  const { width, columns } = data.times;
  if (!columns.length) return make("p", { class: "soft" }, "no grains");
  const first = columns[0].from, last = columns[columns.length - 1].from;
  const slots = (last - first) / width + 1, WIDE = 1000, HIGH = 160;
  const sum = (column) => Object.values(column.types).reduce((a, b) => a + b, 0);
  const most = Math.max(...columns.map(sum)), step = WIDE / Math.max(slots, 8);
  const parts = columns.flatMap((column) => {
    const x = ((column.from - first) / width) * step;
    let y = HIGH;
    return TYPES.filter((type) => column.types[type]).map((type) => {
      const high = (HIGH * column.types[type]) / most;
      y -= high;
      return make("rect", { x, y, width: Math.max(step - 1, 1), height: high, style: `fill:${color(type)}` },
        make("title", {}, `${day(column.from)}: ${column.types[type]} ${type}`));
    });
  });
  return make("svg", { viewBox: `0 0 ${WIDE} ${HIGH + 20}`, role: "img", "aria-label": "grains by time" },
    parts,
    make("text", { x: 0, y: HIGH + 15 }, day(first)),
    make("text", { x: WIDE, y: HIGH + 15, "text-anchor": "end" },
      `${day(last)}, highest ${number(most)} in ${span(width)}`));
}

function span(seconds) {
  const units = [[31449600, "52 weeks"], [2419200, "4 weeks"], [604800, "a week"], [86400, "a day"],
    [21600, "6 hours"], [3600, "an hour"], [600, "10 minutes"], [60, "a minute"]];
  return units.find(([size]) => size === seconds)[1];
}

function counts() {
  const keys = TYPES.map((type) => make("span", {},
    make("span", { class: "key", style: `background:${color(type)}` }), type));
  section("types", "By type and time", bars(Object.entries(data.types), color), make("p", {}, keys), timeline());
  const flags = Object.entries(data.flags).filter(([, count]) => count);
  section("sensitivity", "Sensitivity, and what headers say", make("div", { class: "columns" },
    bars(LEVELS.map((name, level) => [name, data.sensitivity[level]]),
      (name) => `var(--c${[4, 0, 1, 2][LEVELS.indexOf(name)]})`),
    flags.length ? bars(flags, () => "var(--c9)") : make("p", { class: "soft" }, "no flags are set")));
}
