// SPDX-License-Identifier: Apache-2.0

const WIDE = 1000, HIGH = 560;

// Springs along the links, a push between all nodes, a pull to the middle; some 200 steps. The
// start is a circle, so that the same data gives the same picture.
function layout(nodes, links) {
  nodes.forEach((node, place) => {
    const turn = (2 * Math.PI * place) / nodes.length;
    node.x = WIDE / 2 + 300 * Math.cos(turn);
    node.y = HIGH / 2 + 200 * Math.sin(turn);
  });
  const apart = Math.sqrt((WIDE * HIGH) / Math.max(nodes.length, 1)) * 0.6;
  for (let heat = 30; heat > 0.3; heat *= 0.977) {
    for (const node of nodes) node.dx = (WIDE / 2 - node.x) * 0.4, node.dy = (HIGH / 2 - node.y) * 0.7;
    for (let i = 0; i < nodes.length; i++) {
      for (let j = i + 1; j < nodes.length; j++) {
        const a = nodes[i], b = nodes[j];
        const dx = a.x - b.x || 0.1 * (i - j), dy = a.y - b.y || 0.1;
        const push = (apart * apart) / (dx * dx + dy * dy + 1);
        a.dx += dx * push, a.dy += dy * push, b.dx -= dx * push, b.dy -= dy * push;
      }
    }
    for (const [from, , to] of links) {
      const a = nodes[from], b = nodes[to];
      const pull = (Math.hypot(a.x - b.x, a.y - b.y) - apart) / apart / 4;
      const dx = (b.x - a.x) * pull, dy = (b.y - a.y) * pull;
      a.dx += dx, a.dy += dy, b.dx -= dx, b.dy -= dy;
    }
    for (const node of nodes) {
      const far = Math.hypot(node.dx, node.dy) || 1, step = Math.min(far, heat) / far;
      node.x = Math.min(WIDE - 60, Math.max(60, node.x + node.dx * step));
      node.y = Math.min(HIGH - 20, Math.max(20, node.y + node.dy * step));
    }
  }
}

function graph() {
  const { nodes, links, left_out: left } = data.graph;
  if (!links.length) {
    section("graph", "Triples", make("p", { class: "soft" }, "no grain has subject, relation and object"));
    return;
  }
  layout(nodes, links);
  const lines = links.map(([from, relation, to, address]) => make("line",
    { x1: nodes[from].x, y1: nodes[from].y, x2: nodes[to].x, y2: nodes[to].y, "data-address": address },
    make("title", {}, `${nodes[from].name} — ${relation} → ${nodes[to].name}`)));
  const most = Math.max(...nodes.map((node) => node.links));
  const radius = (node) => 4 + 8 * Math.sqrt(node.links / most);
  const dots = nodes.map((node, place) => make("g", { "data-node": place, tabindex: 0 },
    make("circle", { cx: node.x, cy: node.y, r: radius(node) }),
    make("text", { x: node.x + radius(node) + 3, y: node.y + 4 },
      node.name.length > 24 ? node.name.slice(0, 23) + "…" : node.name),
    make("title", {}, node.name)));
  const said = make("div", { id: "said", class: "soft" }, "Choose a node to see its triples.");
  const choose = (chosen) => {
    const near = links.map(([from, , to]) => from === chosen || to === chosen);
    const seen = new Set([chosen, ...links.filter((_, place) => near[place]).flatMap(([a, , b]) => [a, b])]);
    lines.forEach((line, place) => line.setAttribute("class", near[place] ? "near" : "away"));
    dots.forEach((dot, place) => dot.setAttribute("class", seen.has(place) ? "" : "away"));
    said.replaceChildren(table(["subject", "relation", "object", "grain"],
      links.filter((_, place) => near[place]).map(([from, relation, to, address]) =>
        [nodes[from].name, relation, nodes[to].name, make("code", {}, short(address))])));
  };
  dots.forEach((dot, place) => {
    dot.addEventListener("click", () => choose(place));
    dot.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(place); });
  });
  section("graph", "Triples",
    make("svg", { class: "graph", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": "triples" },
      lines, dots),
    left ? make("p", { class: "soft" }, `${number(left)} more links are not drawn`) : null, said);
}

about();
verification();
counts();
graph();
supersessions();
signatures();
grains();
