/** Creates DOM elements in one expression, because the page's security policy rules out HTML strings. */

type Child = Node | string | null | false;
type Attributes = Readonly<Record<string, string | number | boolean | ((event: Event) => void) | null>>;

/** Create an element. Function values are listeners, named `on` plus the event; false and null omit an attribute. */
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
 * Replace the children of an element. Equal children keep their DOM nodes, so that an update does not interrupt a click
  * or close an open list. The focus stays on the element with the same `data-key`.
 */
export function fill(element: HTMLElement, ...children: readonly Child[]): void {
  const focused = focusIn(element);
  const key = element.contains(focused) ? (focused as HTMLElement).dataset.key : undefined;
  const wanted = children.filter((child): child is Node | string => child !== null && child !== false).map((child) => (typeof child === "string" ? document.createTextNode(child) : child));
  const had = [...element.childNodes];
  wanted.forEach((child, index) => {
    const old = had[index];
    if (!old) element.append(child);
    else if (old === child || !old.isEqualNode(child)) old.replaceWith(child);
    else sameSwitches(old, child);
  });
  for (const old of had.slice(wanted.length)) old.remove();
  if (key !== undefined && !element.contains(focusIn(element))) element.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

/** The focused element of the document, or of the shadow tree, that holds an element. */
export function focusIn(element: HTMLElement): Element | null {
  const root = element.getRootNode();
  return root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
}

/** Set switches to their wanted state. `isEqualNode` ignores it, because it is not an attribute. */
function sameSwitches(old: Node, wanted: Node): void {
  if (!(old instanceof HTMLElement) || !(wanted instanceof HTMLElement)) return;
  const switches = (node: HTMLElement): HTMLInputElement[] => [...node.querySelectorAll<HTMLInputElement>("input[type=checkbox]")];
  const now = switches(wanted);
  switches(old).forEach((input, index) => (input.checked = now[index]?.checked ?? input.checked));
}

/** A collapsible section of the page with a title and a note. */
export function section(title: string, open: boolean, onToggle: (open: boolean) => void): { root: HTMLDetailsElement; body: HTMLElement; note: HTMLElement } {
  const body = h("div", { class: "body" });
  const note = h("span", { class: "note" });
  const root = h("details", { class: "section", open }, h("summary", {}, h("span", {}, title), note), body);
  root.addEventListener("toggle", () => onToggle(root.open));
  return { root, body, note };
}
