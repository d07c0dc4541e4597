/** Elements made in one expression; a page with a strict policy has no use for HTML in strings. */

type Child = Node | string | null | false;
type Attributes = Readonly<Record<string, string | number | boolean | ((event: Event) => void) | null>>;

/** An element; attributes that begin with `on` are listeners, false and null leave one out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== false));
  return element;
}

/**
 * Have an element hold these children. Those that read the same stay the elements that they are, so that a click or an
 * open list that meets news of something else is not lost; the focus stays on the element with the same `data-key`.
 */
export function fill(element: HTMLElement, ...children: readonly Child[]): void {
  const key = element.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
  const wanted = children.filter((child): child is Node | string => child !== null && child !== false).map((child) => (typeof child === "string" ? document.createTextNode(child) : child));
  const had = [...element.childNodes];
  wanted.forEach((child, index) => {
    const old = had[index];
    if (!old) element.append(child);
    else if (old === child || !old.isEqualNode(child)) old.replaceWith(child);
    else sameSwitches(old, child);
  });
  for (const old of had.slice(wanted.length)) old.remove();
  if (key !== undefined && !element.contains(document.activeElement)) element.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

/** A switch that a hand has moved goes back to what is so: its state is no attribute, and not compared. */
function sameSwitches(old: Node, wanted: Node): void {
  if (!(old instanceof HTMLElement) || !(wanted instanceof HTMLElement)) return;
  const switches = (node: HTMLElement): HTMLInputElement[] => [...node.querySelectorAll<HTMLInputElement>("input[type=checkbox]")];
  const now = switches(wanted);
  switches(old).forEach((input, index) => (input.checked = now[index]?.checked ?? input.checked));
}

/** A part of the page that folds, whose title says what is in it. */
export function section(title: string, open: boolean, onToggle: (open: boolean) => void): { root: HTMLElement; body: HTMLElement; note: HTMLElement } {
  const body = h("div", { class: "body" });
  const note = h("span", { class: "note" });
  const root = h("details", { class: "section", open }, h("summary", {}, h("span", {}, title), note), body);
  root.addEventListener("toggle", () => onToggle(root.open));
  return { root, body, note };
}
