"use strict";
// Tables that are sorted by a click on a title, and searched where they are long.

const LEAST_FOR_SEARCH = 5;

/** A number at the beginning of a text, with its unit as a factor; NaN for other texts. */
function numberOf(text) {
  const found = /^[~<]?\s*([+-]?[\d,]*\.?\d+)\s*(ms|µs|s|kB|MB|GB|TB|%|x)?/.exec(text.trim());
  if (!found) return NaN;
  const factors = { "µs": 1e-3, s: 1e3, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
  return Number(found[1].replaceAll(",", "")) * (factors[found[2]] ?? 1);
}

/** Rows of a body with the explanations that follow them; sums and rests, which stay at the end, are left out. */
function groupsOf(body) {
  const groups = [];
  for (const row of body.rows) {
    if (row.classList.contains("story")) groups.at(-1)?.push(row);
    else groups.push([row]);
  }
  const linked = groups.some(([row]) => row.cells[0]?.querySelector("a"));
  return groups.filter(([row]) => !row.classList.contains("sum") && (!linked || row.cells[0]?.querySelector("a")));
}

function sortBy(table, column, title) {
  const body = table.tBodies[0];
  const down = title.getAttribute("aria-sort") !== "descending";
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  title.setAttribute("aria-sort", down ? "descending" : "ascending");
  const groups = groupsOf(body);
  const end = groups.at(-1)?.at(-1)?.nextSibling ?? null;
  const key = ([row]) => row.cells[column]?.textContent ?? "";
  const compare = (one, other) => {
    const [left, right] = [numberOf(key(one)), numberOf(key(other))];
    if (Number.isNaN(left) && Number.isNaN(right)) return key(other).localeCompare(key(one));
    return (Number.isNaN(right) ? -Infinity : right) - (Number.isNaN(left) ? -Infinity : left) || 0;
  };
  groups.sort((one, other) => (down ? 1 : -1) * compare(one, other));
  for (const row of groups.flat()) body.insertBefore(row, end);
}

function search(table) {
  const input = document.createElement("input");
  input.type = "search";
  input.className = "search";
  input.placeholder = "Search";
  input.setAttribute("aria-label", "Search this table");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const group of groupsOf(table.tBodies[0])) {
      const text = group.map((row) => row.textContent.toLowerCase()).join(" ");
      for (const row of group) row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.closest(".scroll").before(input);
}

function enhanceTables() {
  for (const table of document.querySelectorAll("main .scroll > table")) {
    if (!table.tHead || groupsOf(table.tBodies[0]).length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((title, column) => {
      if (!title.textContent.trim()) return;
      title.tabIndex = 0;
      title.classList.add("sorts");
      title.addEventListener("click", () => sortBy(table, column, title));
      title.addEventListener("keydown", (event) => {
        if (event.key === "Enter") sortBy(table, column, title);
      });
    });
    if (groupsOf(table.tBodies[0]).length >= LEAST_FOR_SEARCH) search(table);
  }
}

enhanceTables();
