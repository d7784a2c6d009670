// SPDX-License-Identifier: Apache-2.0

function supersessions() {
  const made = data.chains.map((chain) => make("div", { class: "chain" },
    chain.forked ? make("p", { class: "bad" }, "forked: several heads") : null,
    chain.versions.map((one) => make("div", { class: one.head ? "head" : null },
      make("span", { class: "isolate" }, one.says),
      make("p", { class: "soft" }, make("code", {}, short(one.address)),
        one.follows ? ` after ${short(one.follows)}` : " first",
        one.standing ? `, ${one.standing}` : ""))),
    chain.cut ? make("p", { class: "soft" }, "and more") : null));
  section("chains", "Supersession chains",
    made.length ? made : make("p", { class: "soft" }, "nothing was superseded"),
    data.left_out ? make("p", { class: "soft" }, `and ${number(data.left_out)} more chains`) : null);
}

function signatures() {
  const by = new Map();
  for (const found of Object.values(data.signers)) {
    for (const one of found) {
      const row = by.get(one.signer) || { grains: 0, proven: 0 };
      row.grains += 1;
      row.proven += one.proven ? 1 : 0;
      by.set(one.signer, row);
    }
  }
  const rows = [...by].map(([signer, row]) => [make("code", {}, signer), number(row.grains),
    make("span", { class: row.proven === row.grains ? "good" : "bad" },
      row.proven === row.grains ? "✓ all valid" : `${number(row.grains - row.proven)} not proven`)]);
  section("signatures", "Signatures", rows.length
    ? table(["signer", "grains", "verified"], rows)
    : make("p", { class: "soft" }, "none among the newest grains"));
}

// The nine bytes of the header and the entries of the payload, each in its color.
function bytes(one) {
  const parts = [
    ...one.header.map((part) => [part.offset, part.offset + part.size, part.name]),
    ...one.fields.map((part) => [part.offset, part.end, part.name]),
  ];
  const made = [];
  const take = (from, to) => (one.dump.slice(2 * from, 2 * to).match(/../g) || []).join(" ");
  let at = 0;
  parts.forEach(([from, to, name], place) => {
    if (take(from, to) === "") return;
    if (from > at) made.push(make("span", {}, take(at, from)), " ");
    made.push(make("span", { title: name, "data-part": name,
      style: `background:color-mix(in srgb, var(--c${place % 10}) 28%, transparent)` }, take(from, to)), " ");
    at = to;
  });
  const rest = one.dump.length / 2;
  if (rest > at) made.push(make("span", {}, take(at, rest)));
  if (one.size > rest) made.push(make("span", { class: "soft" }, ` … ${number(one.size)} bytes in all`));
  return make("p", { class: "mono bytes" }, made);
}

function whole(one) {
  const value = (part) => make("td", { class: "isolate" },
    typeof part.value === "string" ? part.value : JSON.stringify(part.value),
    part.note ? make("span", { class: "soft" }, ` ${part.note}`) : null);
  return make("div", {},
    make("p", {}, make("code", {}, one.address)),
    one.error ? make("p", { class: "bad" }, `✗ ${one.error.code}: ${one.error.message}`) : null,
    one.sealed ? make("p", { class: "soft" }, "sealed: only its header can be read here") : null,
    one.warnings.map((text) => make("p", { class: "bad" }, text)),
    one.signers.map((by) => make("p", { class: by.proven ? "good" : "bad" },
      by.proven ? "✓ signed by " : "not proven: signed by ", make("code", {}, by.signer),
      by.iat ? `, ${by.iat} as the signer says` : "")),
    make("h3", {}, "Header"),
    table(["byte", "hex", "name", "meaning"], one.header.map((part) =>
      [part.offset, make("code", {}, part.hex), part.name, part.meaning])),
    one.fields.length ? make("h3", {}, "Fields") : null,
    one.fields.length ? table(["byte", "key", "field", "encoded", "value"], one.fields.map((part) =>
      [part.offset, make("code", {}, part.key), part.name, part.kind, value(part)])) : null,
    one.state ? make("h3", {}, "State") : null,
    one.state ? table(["", ""], Object.entries(one.state)
      .filter(([, at]) => at !== null && at !== false && at.length !== 0)
      .map(([name, at]) => [name.replaceAll("_", " "), make("code", {}, String(at))])) : null,
    make("h3", {}, "Bytes"), bytes(one));
}

function entry(one) {
  const made = make("details", { "data-address": one.address },
    make("summary", {}, make("code", {}, short(one.address)),
      make("span", { style: `color:${color(one.type)}` }, one.type || "not readable"),
      make("span", {}, one.error ? `✗ ${one.error.code}` : one.says),
      make("span", { class: "soft" }, one.standing || (one.made || "").slice(0, 10))));
  // Rendered when it is opened: a page of many grains stays fast.
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) made.append(whole(one));
  });
  return made;
}

function grains() {
  const words = make("input", { type: "search", placeholder: "words or an address", id: "words" });
  const kind = make("select", { id: "kind" }, make("option", { value: "" }, "all types"),
    [...new Set(data.shown.map((one) => one.type))].map((type) =>
      make("option", { value: type || "" }, type || "not readable")));
  const list = make("div", { id: "grains" });
  const count = make("p", { class: "soft", id: "count" });
  const show = () => {
    const asked = words.value.toLowerCase();
    const found = data.shown.filter((one) => (!kind.value || one.type === kind.value) &&
      (one.says.toLowerCase().includes(asked) || one.address.startsWith(asked)));
    list.replaceChildren(...found.map(entry));
    count.textContent = `${number(found.length)} shown of ${number(data.grains)}` +
      (data.restricted ? `; ${number(data.restricted)} are restricted and left out` : "");
  };
  words.addEventListener("input", show);
  kind.addEventListener("change", show);
  section("list", data.kind === "store" ? "The newest grains" : "Grains", words, kind, count, list);
  show();
  if (data.shown.length === 1) list.firstChild.open = true;
}
